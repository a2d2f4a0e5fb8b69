"""What is told while a calibration runs."""

from unittest import mock

import pytest

from weir_cli.calibration.progress import CalibrationProgress


def test_the_time_left_grows_where_measurements_take_longer_than_expected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    moments = iter([0.0, 60.0, 60.0, 120.0])
    with (
        mock.patch("weir_cli.calibration.progress.time") as time,
        CalibrationProgress(100.0) as progress,
    ):
        time.monotonic.side_effect = lambda: next(moments)
        assert progress.left_text() == "about 1 min 40 s"
        progress.credit(20.0)
        assert progress.left_text() == "about 1 min 20 s"
        with progress.part("grid", 20.0):
            pass
        assert progress.left_text() == "about 3 min 0 s"
        with progress.part("rest", 60.0):
            pass
    assert progress.left_text() == "about 0 s"
    assert "grid: 60.0 s, about 3 min 0 s left" in capsys.readouterr().err
