import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { type Duplex, PassThrough } from 'node:stream'
import { create } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { Registrar, registerMethod, unregisterMethod } from '../../../src/agentk/modules/registrar/module.ts'
import { parseKasAddress } from '../../../src/agentk/tunnels/kas-address.ts'
import { KasSessions } from '../../../src/agentk/tunnels/kas-sessions.ts'
import type { TunnelPool } from '../../../src/agentk/tunnels/pool.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { KasError } from '../../../src/lib/errors.ts'
import {
  RegisterRequestSchema,
  RegisterResponseSchema,
  UnregisterRequestSchema,
  UnregisterResponseSchema,
} from '../../../src/proto/gen/agent_registrar_pb.ts'
import { AgentMetaSchema } from '../../../src/proto/gen/entity_pb.ts'
import type { ServerSession } from '../../../src/proto/grpc/server-session.ts'
import { encodeHttpRequest, kubernetesApiMethod } from '../../../src/proto/http/http-over-grpc.ts'
import { FreezableFront } from '../../support/freezable-front.ts'
import { patience } from '../../support/slowness.ts'
import { unaryHandler } from '../../support/unary-handler.ts'
import { kasOf, silentLog, startPool, startSessions } from './agent-side.ts'
import { startSide } from './api-server.ts'
import { FakeKas, type KasTunnel, listenAs } from './fake-kas.ts'
import { requestHeader } from './http-call.ts'

/** agentk ends in time and leaves nothing, in each state of kas, while an endless call runs. */

const patienceMs = patience(500)
/** time above the patience: the cut takes some turns of the event loop */
const slackMs = patience(1000)

interface Parts {
  readonly kas: FakeKas
  /** front between agentk and kas */
  readonly front: FreezableFront
  readonly sessions: KasSessions
  readonly pool: TunnelPool
  readonly tunnel: KasTunnel
  /** the API server's answer to the call, still open */
  readonly response: ServerResponse
}

for (const form of ['grpc', 'ws'] as const) {
  t.test(`${form}: kas has vanished, its connection closed`, async (t) => {
    const parts = await startCall(t, form)
    for (const session of parts.kas.sessions) session.destroy()
    t.ok((await stopAll(parts)) < patienceMs, 'nothing is waited for')
    await leavesNothing(t, parts)
  })

  t.test(`${form}: kas drains, and its call does not end`, async (t) => {
    const parts = await startCall(t, form)
    const draining = leaves(parts)
    for (const session of parts.kas.sessions) session.close()
    await draining
    t.ok((await stopAll(parts)) < patienceMs + slackMs)
    await leavesNothing(t, parts)
  })

  t.test(`${form}: kas drained, then vanished`, async (t) => {
    const parts = await startCall(t, form)
    const draining = leaves(parts)
    for (const session of parts.kas.sessions) session.close()
    await draining
    for (const session of parts.kas.sessions) session.destroy()
    t.ok((await stopAll(parts)) < patienceMs, 'nothing is waited for')
    await leavesNothing(t, parts)
  })

  t.test(`${form}: kas drained, gave the call up, then vanished`, async (t) => {
    const parts = await startCall(t, form)
    const { kas, tunnel } = parts
    const draining = leaves(parts)
    const [session] = kas.sessions as [ServerSession]
    session.close()
    await draining
    for (const each of [tunnel, ...kas.idle]) each.fail(new KasError({ code: 'SHUTTING_DOWN' }))
    await session.closed
    t.ok((await stopAll(parts)) < patienceMs, 'nothing is waited for')
    await leavesNothing(t, parts)
  })

  t.test(`${form}: kas drains, and the call ends within the patience`, async (t) => {
    const parts = await startCall(t, form)
    const draining = leaves(parts)
    for (const session of parts.kas.sessions) session.close()
    await draining
    const stopped = stopAll(parts)
    parts.response.end('the end')
    const kinds: string[] = []
    for (let message = await parts.tunnel.next(); message; message = await parts.tunnel.next()) kinds.push(message.kind)
    t.strictSame(kinds, ['message', 'message', 'trailer'], 'nothing of it is cut')
    parts.tunnel.end()
    t.ok((await stopped) < patienceMs)
    await leavesNothing(t, parts)
  })

  t.test(`${form}: kas is frozen, without FIN`, async (t) => {
    const parts = await startCall(t, form)
    parts.front.freeze()
    t.ok((await stopAll(parts)) < patienceMs + slackMs)
    await leavesNothing(t, parts)
  })

  t.test(`${form}: kas is frozen in the middle of a long answer`, async (t) => {
    const parts = await startCall(t, form)
    const { response, front } = parts
    front.freeze()
    while (response.write(Buffer.alloc(64 * 1024))); // until agentk stops reading
    t.ok((await stopAll(parts)) < patienceMs + slackMs)
    await leavesNothing(t, parts)
  })

  t.test(`${form}: kas is frozen, and the pod has to unregister`, async (t) => {
    const { front, sessions, registrar } = await startRegistered(t, form)
    front.freeze()
    const startedAt = performance.now()
    const limit = AbortSignal.timeout(patienceMs)
    await registrar.leave(limit)
    await sessions.stop(limit)
    t.ok(performance.now() - startedAt < patienceMs + slackMs)
  })
}

t.test('without a connection there is nobody to unregister from', async (t) => {
  const { kas, sessions, registrar, left } = await startRegistered(t, 'grpc')
  const leaving = new Promise<void>((resolve) => {
    void sessions.session(AbortSignal.timeout(patience(5000))).then((session) => session.onDraining(resolve))
  })
  kas.close()
  await leaving
  const startedAt = performance.now()
  await registrar.stop(AbortSignal.timeout(patience(5000)))
  t.ok(performance.now() - startedAt < patienceMs, 'nothing is waited for')
  t.equal(left(), 0)
})

t.test('a dial that ends as the sessions stop leaves no connection', async (t) => {
  const dialled = Promise.withResolvers<Duplex>()
  const asked = Promise.withResolvers<void>()
  const dial = () => {
    asked.resolve()
    return dialled.promise
  }
  const sessions = new KasSessions(
    { dial, log: silentLog, clock: systemClock, random: () => 0 },
    { address: parseKasAddress('grpc://kas'), userAgent: 'test' },
  )
  await sessions.start()
  await asked.promise
  const stopped = sessions.stop(AbortSignal.timeout(patience(5000)))
  const duplex = new PassThrough()
  dialled.resolve(duplex)
  await stopped
  t.equal(duplex.destroyed, true)
  t.equal(sessions.connected, false)
  await t.rejects(sessions.session(AbortSignal.timeout(patience(5000))), { code: 'CANCELLED' })
})

/** Starts a pod that is registered at kas. */
async function startRegistered(t: Test, form: 'grpc' | 'ws') {
  const kas = new FakeKas()
  const registered = Promise.withResolvers<void>()
  let left = 0
  const answer = { register: create(RegisterResponseSchema), unregister: create(UnregisterResponseSchema) }
  kas.handlers.set(
    registerMethod,
    unaryHandler(RegisterRequestSchema, RegisterResponseSchema, async () => answer.register),
  )
  kas.handlers.set(
    unregisterMethod,
    unaryHandler(UnregisterRequestSchema, UnregisterResponseSchema, async () => {
      left += 1
      return answer.unregister
    }),
  )
  const front = await FreezableFront.start(t, await listenAs(t, kas, form))
  const sessions = await startSessions(t, `${form}://127.0.0.1:${front.port}`)
  // the registrar pauses for the first time after the first registration
  const clock = {
    now: systemClock.now,
    after: (ms: number, action: () => void) => {
      registered.resolve()
      return systemClock.after(ms, action)
    },
  }
  const registrar = new Registrar(
    {
      kas: kasOf(sessions),
      clock,
      kubernetesVersion: async () => ({ major: '1', minor: '35', gitVersion: 'v1.35.4', platform: 'linux/amd64' }),
      log: silentLog,
      random: () => 0,
    },
    { meta: create(AgentMetaSchema, { podName: 'pod' }), server: new URL('https://10.0.0.1') },
  )
  await registrar.start()
  t.teardown(() => registrar.stop())
  await registered.promise
  return { kas, front, sessions, registrar, left: () => left }
}

/** Starts a call with an answer that has begun and that the API server does not end. */
async function startCall(t: Test, form: 'grpc' | 'ws'): Promise<Parts> {
  const answering = Promise.withResolvers<ServerResponse>()
  const { api } = await startSide(t, (_, response) => {
    response.write('begun')
    answering.resolve(response)
  })
  const kas = new FakeKas()
  const front = await FreezableFront.start(t, await listenAs(t, kas, form))
  const sessions = await startSessions(t, `${form}://127.0.0.1:${front.port}`)
  const pool = await startPool(t, sessions, { [kubernetesApiMethod]: api.forward })
  const tunnel = await kas.take()
  tunnel.begin(kubernetesApiMethod)
  tunnel.message(requestHeader())
  tunnel.message(encodeHttpRequest.trailer)
  const first = [(await tunnel.next())?.kind, (await tunnel.next())?.kind, (await tunnel.next())?.kind]
  t.strictSame(first, ['header', 'message', 'message'])
  return { kas, front, sessions, pool, tunnel, response: await answering.promise }
}

/** Resolves when the agent has learned that its connection is to be left. */
async function leaves({ sessions }: Parts): Promise<void> {
  const session = await sessions.session(AbortSignal.timeout(patience(5000)))
  await new Promise<void>((resolve) => session.onDraining(resolve))
}

/** Stops the parts in the order of the program. @returns duration, ms */
async function stopAll({ pool, sessions }: Parts): Promise<number> {
  const startedAt = performance.now()
  const limit = AbortSignal.timeout(patienceMs)
  await pool.stop(limit)
  await sessions.stop(limit)
  return performance.now() - startedAt
}

/** Checks that no slot, no connection and no request at the API server is left. */
async function leavesNothing(t: Test, { pool, sessions, response }: Parts): Promise<void> {
  t.match(pool.counts, { idle: 0, active: 0 })
  t.equal(sessions.connected, false)
  if (!response.closed) await once(response, 'close')
}
