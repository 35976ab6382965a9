import type { Test } from 'tap'
import type { AgentId, Call, Forward, Reply } from '../../src/call/call.ts'
import type { Caller } from '../../src/call/caller.ts'
import { deliver } from '../../src/kas/router/delivery.ts'
import { Router } from '../../src/kas/router/router.ts'
import { defaultSearch } from '../../src/kas/router/tunnel-search.ts'
import {
  AgentsServer,
  type AgentsServerComponents,
  type AgentsServerOptions,
} from '../../src/kas/servers/agents/agents-server.ts'
import { TunnelRegistry } from '../../src/kas/tunnels/tunnel-registry.ts'
import { monotonicClock } from '../../src/lib/clock.ts'
import { KasError } from '../../src/lib/errors.ts'
import { createLogger } from '../../src/lib/log.ts'
import { noTracer } from '../../src/lib/tracing/tracer.ts'
import { echoMethod } from './fake-agent.ts'

export const agentId = 42n as AgentId

/** The part of a directory that a server for agents needs. */
export type AgentsDirectory = AgentsServerComponents['directory']

/** A directory that knows the token `good`, and refuses others by `refuse`. */
export function oneAgent(
  refuse: (token: string) => KasError = () => new KasError({ code: 'UNAUTHENTICATED' }),
): AgentsDirectory {
  const project = { id: 1n, path: 'platform/clusters' }
  return {
    async agentByToken(token) {
      if (token === 'good') return { id: agentId, name: 'prod', project }
      throw refuse(token)
    },
    onChange: () => () => undefined,
  }
}

/** Starts a server for one agent. */
export async function listenToAgents(
  t: Test,
  components: Pick<AgentsServerComponents, 'tunnels'> & Partial<AgentsServerComponents>,
  options: Partial<AgentsServerOptions> = {},
): Promise<AgentsServer> {
  const server = new AgentsServer(
    {
      directory: oneAgent(),
      gitlab: undefined,
      methods: {},
      log: createLogger({ level: 'silent' }),
      onRateExceeded: () => undefined,
      tracer: noTracer,
      ...components,
    },
    {
      listen: { port: 0, host: '127.0.0.1' },
      websocket: true,
      product: 'gitlab-kas/v18.5.0/test',
      listenGraceMs: 0,
      age: { maxAgeMs: 7_200_000 },
      ...options,
    },
  )
  await server.start()
  t.teardown(() => server.stop())
  return server
}

/** Starts a server for agents with a router, as in one replica; `delivered` repeats the calls that can be repeated. */
export async function startAgentsServer(
  t: Test,
  overrides: {
    components?: Partial<AgentsServerComponents>
    options?: Partial<AgentsServerOptions>
    findTimeoutMs?: number
  } = {},
) {
  const tunnels = new TunnelRegistry({ clock: monotonicClock })
  const timeouts = { count: 0 }
  const observer = { routed: () => undefined, timedOut: () => void timeouts.count++ }
  const router = new Router(
    { tunnels, observer },
    { ...defaultSearch, findTimeoutMs: overrides.findTimeoutMs ?? 20_000 },
  )
  const server = await listenToAgents(t, { tunnels, ...overrides.components }, overrides.options)
  const { forward } = router
  const serves = router.serves.bind(router)
  return { server, tunnels, timeouts, forward, serves, delivered: deliver(forward), port: server.address.port }
}

export const testCaller: Caller = { name: 'user 7', key: 'user-7' }

/** A call whose messages are all known. */
export function callOf(messages: (string | Uint8Array)[] = [], overrides: Partial<Call> = {}): Call {
  return {
    agentId,
    method: echoMethod,
    metadata: {},
    safety: 'unsafe',
    caller: testCaller,
    signal: new AbortController().signal,
    messages: (async function* () {
      for (const message of messages) yield typeof message === 'string' ? Buffer.from(message) : message
    })(),
    ...overrides,
  }
}

/** Reads a whole reply. */
export async function readReply(reply: Reply) {
  const messages: string[] = []
  for await (const message of reply.messages) messages.push(Buffer.from(message).toString())
  return { messages, metadata: await reply.metadata, ...(await reply.done) }
}

export async function callThrough(forward: Forward, messages: (string | Uint8Array)[], overrides: Partial<Call> = {}) {
  return readReply(await forward(callOf(messages, overrides)))
}
