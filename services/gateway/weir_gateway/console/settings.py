"""Settings of the console."""

from pydantic import Field, SecretStr

from weir_core.config import SettingsGroup


class ConsoleSettings(SettingsGroup):
    """The console: pages for operators and tenants, at /console/ of http_address."""

    enabled: bool = Field(default=True, description="serve it; unless role is edge")
    public_url: str = Field(
        default="",
        description="URL at which browsers reach the gateway, such as https://weir.example.com, "
        "where a proxy stands before it; needed for OIDC",
    )
    idle_s: float = Field(
        default=1_800, ge=60, le=86_400, description="a session without calls ends after so long"
    )
    session_s: float = Field(
        default=43_200, ge=60, le=604_800, description="any session ends after so long"
    )
    max_sessions: int = Field(default=1_000, ge=1, le=100_000, description="sessions at once")
    login_failures: int = Field(
        default=10, ge=1, le=1_000, description="failed logins of one address in a minute"
    )
    oidc_issuer: str = Field(
        default="", description="URL of an OpenID Connect provider; empty: no login by it"
    )
    oidc_client_id: str = Field(default="", description="client that is registered there")
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="its secret; unset: a public client, with PKCE alone"
    )
    oidc_scopes: str = Field(default="openid profile", description="asked for, with openid")
    oidc_claim: str = Field(
        default="groups", description="claim of the ID token that says who may do what"
    )
    oidc_roles: dict[str, str] = Field(
        default_factory=dict,
        description="by value of the claim: admin, or tenant:ID; values without an entry let "
        "nobody in",
    )
    oidc_label: str = Field(default="Single sign-on", description="of the button")
