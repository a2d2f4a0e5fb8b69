"""A small OpenID Connect provider: discovery, keys, codes for ID tokens, PKCE, a client secret."""

import base64
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from weir_core.process.http import HttpServer

CLIENT_ID, CLIENT_SECRET = "weir console", "a:secret/of the client"


@dataclass
class Provider:
    """What it says is as a test wants."""

    claims: dict[str, Any] = field(default_factory=lambda: {"groups": ["platform"]})
    """Of ID tokens, over those that are right."""
    error: str = ""
    """What comes back in place of a code."""
    down: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    issuer: str = ""

    def __post_init__(self) -> None:
        self.key = self.sign_with = RSAKey.generate_key(2048, auto_kid=True)

    def routes(self) -> list[Route]:
        return [
            Route("/.well-known/openid-configuration", self._configuration),
            Route("/keys", self._keys),
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
        ]

    async def _configuration(self, _: Request) -> Response:
        if self.down:
            return Response(status_code=503)
        places = {"authorization": "authorize", "token": "token"}
        told = {f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in places.items()}
        return JSONResponse({"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **told})

    async def _keys(self, _: Request) -> Response:
        return JSONResponse(KeySet([self.key]).as_dict(private=False))

    async def _authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        back = {"state": query["state"]}
        if self.error:
            back["error"] = self.error
        else:
            back["code"] = secrets.token_urlsafe(16)
            self.codes[back["code"]] = query
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(back)}", status_code=302)

    async def _token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        _, _, given = request.headers.get("authorization", "").partition(" ")
        name, _, secret = base64.b64decode(given).decode().partition(":")
        if (unquote(name), unquote(secret)) != (CLIENT_ID, CLIENT_SECRET):
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != challenge:
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        if asked["redirect_uri"] != form["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        return JSONResponse({"id_token": self._id_token(asked), "token_type": "Bearer"})

    def _id_token(self, asked: dict[str, str]) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": "u-1",
            "preferred_username": "olga",
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
        }
        kept = {k: v for k, v in (claims | self.claims).items() if v is not None}
        header = {"alg": "RS256", "kid": self.sign_with.kid}
        return jwt.encode(header, kept, self.sign_with)


@asynccontextmanager
async def running_provider() -> AsyncIterator[Provider]:
    provider = Provider()
    app = Starlette(routes=provider.routes())
    server = HttpServer(app, address="127.0.0.1:0", knob="a test", graceful_s=0.5)
    await server.start()
    provider.issuer = f"http://{server.address}"
    try:
        yield provider
    finally:
        await server.stop()
