"""The users of examples/platform --auth for LangGraph's own server."""

from langgraph_sdk import Auth

auth = Auth()
PERMISSIONS = {"alice": ["write"], "bob": ["write"], "viewer": []}


@auth.authenticate
async def authenticate(authorization: str | None):
    name = (authorization or "").removeprefix("Bearer ").removesuffix("-token")
    if name not in PERMISSIONS or authorization != f"Bearer {name}-token":
        raise Auth.exceptions.HTTPException(status_code=401, detail="invalid token")
    return {"identity": name, "permissions": PERMISSIONS[name]}


@auth.on
async def owned(ctx: Auth.types.AuthContext, value: dict):
    mine = {"owner": ctx.user.identity}
    value.setdefault("metadata", {}).update(mine)
    return mine


@auth.on.threads.create
async def create_thread(ctx: Auth.types.AuthContext, value: dict):
    if "write" not in ctx.permissions:
        return False
    return await owned(ctx, value)


@auth.on.threads.delete
async def delete_thread(ctx: Auth.types.AuthContext, value: dict):
    raise Auth.exceptions.HTTPException(status_code=418, detail="deleting is not allowed here")


@auth.on.assistants.read
@auth.on.assistants.search
async def see_assistants(ctx: Auth.types.AuthContext, value: dict):
    return True


@auth.on.store
async def divide_store(ctx: Auth.types.AuthContext, value: dict):
    namespace = tuple(value.get("namespace") or ())
    if not namespace or namespace[0] != ctx.user.identity:
        namespace = (ctx.user.identity, *namespace)
    value["namespace"] = namespace
