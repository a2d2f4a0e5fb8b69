"""Presets by name. Statistics are of the whole published traces; quantiles were taken from them.

What is not imitated: how a prompt's length goes with its answer's, and the hour of the day.
"""

from collections.abc import Mapping

import numpy as np

from weir_sim.generator.gaps import GapFamily
from weir_sim.generator.prefixes import PrefixModel
from weir_sim.generator.preset import Client, Figures, Preset, Published
from weir_sim.generator.quantiles import Quantiles
from weir_sim.generator.shares import shares_through

_AT = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
_AZURE = "https://github.com/Azure/AzurePublicDataset, 2023"
_MOONCAKE = "https://github.com/kvcache-ai/Mooncake, FAST 2025"


def _quantiles(*values: float) -> Quantiles:
    return Quantiles(list(zip(_AT, values, strict=True)))


def _azure_conv() -> Preset:
    prompt = [
        *zip(_AT[:-1], (2, 181, 207, 396, 1020, 1189, 2734, 4083, 4142), strict=True),
        (0.999, 6179),
        (1.0, 14050),
    ]
    return Preset(
        name="azure-conv",
        source=_AZURE,
        rate_rps=5.53,
        clients=(Client(1.0, 1.09),),
        prompt=Quantiles(prompt),
        output=_quantiles(7, 41, 54, 85, 129, 395, 424, 451, 601, 1000),
        published=Published(
            Figures(1155, 1020, 2734, 4142), Figures(211, 129, 424, 601), gap_cv=1.09
        ),
    )


def _azure_code() -> Preset:
    output = [
        *zip(_AT[:-1], (6, 6, 7, 9, 13, 24, 55, 90, 251), strict=True),
        (0.999, 450),
        (1.0, 1899),
    ]
    return Preset(
        name="azure-code",
        source=_AZURE,
        rate_rps=2.57,
        clients=(Client(1.0, 13.2),),
        prompt=_quantiles(3, 75, 147, 578, 1469, 2744, 5188, 7303, 7436, 7437),
        output=Quantiles(output),
        published=Published(Figures(2048, 1469, 5188, 7436), Figures(28, 13, 55, 251), gap_cv=13.2),
    )


def _arena() -> Preset:
    shares = shares_through([(1, 0.197), (3, 0.505), (10, 0.8), (20, 0.975), (27, 1.0)])
    return Preset(
        name="arena",
        source="https://github.com/Ying1123/VTC-artifact, OSDI 2024",
        rate_rps=2.5,
        clients=tuple(Client(float(share), 1.1) for share in shares),
        prompt=_quantiles(2, 2, 5, 13, 40, 161, 432, 653, 902, 1021),
        output=_quantiles(2, 10, 18, 62, 211, 458, 513, 513, 785, 977),
        published=Published(Figures(136, 40, 432, 902), Figures(256, 211, 513, 785), gap_cv=1.1),
        requests=1_500,
    )


def _mooncake_conversation() -> Preset:
    return Preset(
        name="mooncake-conversation",
        source=_MOONCAKE,
        rate_rps=3.4,
        clients=(Client(1.0, 1.0),),
        prompt=_quantiles(891, 901, 964, 2306, 6909, 15367, 27367, 39550, 85400, 126195),
        output=_quantiles(1, 10, 24, 156, 350, 472, 597, 698, 1119, 2000),
        prefixes=PrefixModel(granularity=512, continues=0.35, families=1, family_pieces=1),
        published=Published(
            Figures(12035, 6909, 27367, 85400), Figures(343, 350, 597, 1119), reused=0.366
        ),
    )


def _mooncake_synthetic() -> Preset:
    return Preset(
        name="mooncake-synthetic",
        source=_MOONCAKE,
        rate_rps=3.91,
        clients=(Client(1.0, 1.01),),
        prompt=_quantiles(13, 22, 30, 277, 11587, 23175, 38611, 48905, 66456, 191378),
        output=_quantiles(1, 2, 4, 11, 69, 250, 389, 519, 768, 893),
        prefixes=PrefixModel(granularity=512, continues=0.7),
        published=Published(
            Figures(15325, 11587, 38611, 66456),
            Figures(149, 69, 389, 768),
            gap_cv=1.01,
            reused=0.64,
        ),
    )


def _arxiv() -> Preset:
    return Preset(
        name="arxiv",
        source="https://github.com/microsoft/vidur, arXiv summarisation",
        rate_rps=1.0,
        clients=(Client(1.0, 1.0),),
        prompt=_quantiles(1, 749, 1242, 1986, 2730, 3370, 3702, 3813, 3933, 4054),
        output=_quantiles(5, 60, 78, 115, 167, 242, 372, 736, 3271, 4056),
        published=Published(Figures(2588, 2730, 3702, 3933), Figures(291, 167, 372, 3271)),
    )


def _servegen() -> Preset:
    """Shares and CVs of m-small's 43 clients at 12 requests/s (published: 1,196)."""
    shares = shares_through([(1, 0.299), (5, 0.77), (10, 0.93), (43, 1.0)])
    rng = np.random.default_rng(43)
    order = rng.permutation(43)
    # Median 1.2, 90th percentile 5.5, as published.
    cvs = np.exp(np.log(1.2) + np.log(5.5 / 1.2) * np.linspace(-1.1, 1.3, 43))[order]
    prompt_scales = np.exp(rng.normal(0.0, 1.0, 43))
    output_scales = np.exp(rng.normal(0.0, 1.0, 43))
    clients = tuple(
        Client(
            float(share),
            float(cv),
            (GapFamily.GAMMA, GapFamily.WEIBULL)[index % 2],
            float(prompt_scale),
            float(output_scale),
        )
        for index, (share, cv, prompt_scale, output_scale) in enumerate(
            zip(shares, cvs, prompt_scales, output_scales, strict=True)
        )
    )
    return Preset(
        name="servegen",
        source="https://github.com/alibaba/ServeGen, language m-small, 2025",
        rate_rps=12.0,
        clients=clients,
        prompt=_quantiles(14, 60, 90, 160, 284, 500, 900, 1_500, 4_000, 17_428),
        output=_quantiles(1, 2, 4, 10, 21, 60, 150, 300, 900, 4_279),
        published=Published(),
    )


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        _azure_conv(),
        _azure_code(),
        _arena(),
        _mooncake_conversation(),
        _mooncake_synthetic(),
        _arxiv(),
        _servegen(),
    )
}
