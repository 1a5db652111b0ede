"""Users, on a server with --auth: "Bearer <name>-token" for alice and bob, who may write, and viewer, who may not. A user sees
what is his own, and all assistants; deleting threads is refused with 418; namespaces of the store begin with the user."""

from kit import check, collect, data_of, eq, fails, has, id_of, uuid

LEFT = {"target": "left"}


@check("auth.without_a_token", auth=True)
async def _(t):
    await fails(t.client.threads.create(), 401)
    await fails(t.user("mallory").threads.create(), 401)
    for headers in ({}, {"authorization": "alice-token"}, {"authorization": "Bearer mallory-token"}, {"x-api-key": "alice-token"}):
        res = await t.web.post("/threads", json={}, headers=headers)
        eq(res.status_code, 401, str(headers))
        assert isinstance(res.json()["detail"], str), res.text


@check("auth.open_routes", auth=True)
async def _(t):
    for path in ("/ok", "/info", "/metrics", "/docs", "/openapi.json"):
        eq((await t.web.get(path)).status_code, 200, path)


@check("auth.studio_is_not_let_in", auth=True, deviates="lets everybody in who says to be the studio")
async def _(t):
    eq((await t.web.post("/threads/search", json={}, headers={"x-auth-scheme": "langsmith"})).status_code, 401)


@check("auth.owner_is_written", auth=True)
async def _(t):
    alice = t.user("alice")
    made = await alice.threads.create(metadata={"mine": 1})
    has((await alice.threads.get(made["thread_id"]))["metadata"], {"owner": "alice", "mine": 1})


@check("auth.writing_is_refused", auth=True)
async def _(t):
    await fails(t.user("viewer").threads.create(), 403)
    eq(await t.user("viewer").threads.search(), [])


@check("auth.foreign_threads_are_invisible", auth=True)
async def _(t):
    alice, bob = t.user("alice"), t.user("bob")
    id = (await alice.threads.create())["thread_id"]
    await alice.runs.wait(id, "router", input=LEFT)
    [run] = await alice.runs.list(id)
    for attempt in (
        lambda: bob.threads.get(id),
        lambda: bob.threads.update(id, metadata={"stolen": 1}),
        lambda: bob.threads.delete(id),
        lambda: bob.threads.get_state(id),
        lambda: bob.threads.get_history(id),
        lambda: bob.threads.update_state(id, {"target": "x"}),
        lambda: bob.runs.list(id),
        lambda: bob.runs.get(id, run["run_id"]),
        lambda: bob.runs.create(id, "router", input={}),
        lambda: bob.runs.wait(id, "router", input={}),
        lambda: bob.runs.cancel(id, run["run_id"]),
        lambda: bob.runs.delete(id, run["run_id"]),
    ):
        await fails(attempt(), 403, 404, 418)
    await fails(bob.threads.copy(id), 403, 404, 409)
    eq((await alice.threads.get_state(id))["values"]["path"], ["route", "left"])


@check("auth.foreign_streams_are_refused", auth=True)
async def _(t):
    alice, bob = t.user("alice"), t.user("bob")
    id = (await alice.threads.create())["thread_id"]
    await fails(collect(bob.runs.stream(id, "router", input=LEFT)), 403, 404)
    eq(await alice.runs.list(id), [])


@check("auth.foreign_threads_are_not_found", auth=True)
async def _(t):
    tag = uuid()
    await t.user("alice").threads.create(metadata={"tag": tag})
    await t.user("bob").threads.create(metadata={"tag": tag})
    eq([x["metadata"]["owner"] for x in await t.user("bob").threads.search(metadata={"tag": tag})], ["bob"])
    eq(await t.user("bob").threads.count(metadata={"tag": tag}), 1)


@check("auth.creating_over_a_foreign_thread", auth=True)
async def _(t):
    id = (await t.user("alice").threads.create())["thread_id"]
    await fails(t.user("bob").threads.create(thread_id=id), 409)
    await fails(t.user("bob").threads.create(thread_id=id, if_exists="do_nothing"), 404, 409)


@check("auth.a_status_of_ones_own", auth=True)
async def _(t):
    alice = t.user("alice")
    id = (await alice.threads.create())["thread_id"]
    err = await fails(alice.threads.delete(id), 418)
    assert "deleting is not allowed here" in str(err), err
    eq((await alice.threads.get(id))["thread_id"], id)


@check("auth.assistants_are_seen_by_all", auth=True)
async def _(t):
    for name in ("alice", "bob", "viewer"):
        eq((await t.user(name).assistants.get(id_of("router")))["name"], "router")
        assert await t.user(name).assistants.search(graph_id="router"), name


@check("auth.assistants_are_changed_by_their_owner", auth=True)
async def _(t):
    alice, bob = t.user("alice"), t.user("bob")
    made = await alice.assistants.create("router")
    eq(made["metadata"]["owner"], "alice")
    await fails(bob.assistants.update(made["assistant_id"], name="x"), 403, 404)
    await fails(bob.assistants.delete(made["assistant_id"]), 403, 404)
    eq((await alice.assistants.update(made["assistant_id"], name="y"))["name"], "y")


@check("auth.runs", auth=True)
async def _(t):
    alice = t.user("alice")
    id = (await alice.threads.create())["thread_id"]
    parts = await collect(alice.runs.stream(id, "router", input=LEFT, stream_mode="updates"))
    eq(len(data_of(parts, "updates")), 2)
    has((await alice.runs.list(id))[0]["metadata"], {"owner": "alice"})


@check("auth.runs_without_a_thread", auth=True)
async def _(t):
    eq((await t.user("alice").runs.wait(None, "router", input=LEFT))["path"], ["route", "left"])


@check("auth.user_reaches_the_graph_config", auth=True)
async def _(t):
    alice = t.user("alice")
    id = (await alice.threads.create())["thread_id"]
    run = await alice.runs.create(id, "router", input={})
    eq(run["kwargs"]["config"]["configurable"]["langgraph_auth_user_id"], "alice")


@check("auth.the_store_is_divided", auth=True)
async def _(t):
    alice, bob, key = t.user("alice"), t.user("bob"), uuid()
    await alice.store.put_item(["notes"], key=key, value={"text": "a"})
    eq((await alice.store.get_item(["notes"], key=key))["namespace"], ["alice", "notes"])
    eq((await alice.store.get_item(["alice", "notes"], key=key))["value"], {"text": "a"})
    found = (await bob.store.search_items(["notes"], limit=100))["items"]
    assert all(x["namespace"][0] == "bob" for x in found), found
    spaces = (await bob.store.list_namespaces(prefix=[]))["namespaces"]
    assert all(x[0] == "bob" for x in spaces), spaces
    await bob.store.delete_item(["alice", "notes"], key=key)
    eq((await alice.store.get_item(["notes"], key=key))["value"], {"text": "a"})


@check("auth.crons_are_divided", auth=True)
async def _(t):
    alice, bob = t.user("alice"), t.user("bob")
    cron = await alice.crons.create("router", schedule="0 0 1 1 *")
    try:
        eq([c for c in await bob.crons.search(limit=1000) if c["cron_id"] == cron["cron_id"]], [])
        await fails(bob.crons.update(cron["cron_id"], enabled=False), 403, 404)
        await fails(bob.crons.delete(cron["cron_id"]), 403, 404)
    finally:
        await alice.crons.delete(cron["cron_id"])


@check("auth.protocol", auth=True)
async def _(t):
    id = (await t.user("alice").threads.create())["thread_id"]
    start = {"id": 1, "method": "run.start", "params": {"assistant_id": "router", "input": {}}}
    eq((await t.web.post(f"/threads/{id}/commands", json=start)).status_code, 401)
    foreign = await t.web.post(f"/threads/{id}/commands", json=start, headers={"authorization": "Bearer bob-token"})
    assert foreign.status_code >= 400 or foreign.json()["type"] == "error", foreign.text
    eq(await t.user("alice").runs.list(id), [])


@check("auth.protocol_of_the_client", auth=True, client="async")
async def _(t):
    async with t.user("alice").threads.stream(assistant_id="router") as thread:
        await thread.run.start(input=LEFT)
        eq((await thread.output)["path"], ["route", "left"])
