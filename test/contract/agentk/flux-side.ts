import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { create, type MessageShape, toBinary } from '@bufbuild/protobuf'
import { Registry } from 'prom-client'
import type { Test } from 'tap'
import { Terms } from '../../../src/agentk/election/terms.ts'
import { createFlux, type FluxOptions } from '../../../src/agentk/modules/flux/module.ts'
import { reconcileProjectsMethod } from '../../../src/agentk/modules/flux/push-stream.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import type { KasError } from '../../../src/lib/errors.ts'
import { type AgentConfiguration, AgentConfigurationSchema } from '../../../src/proto/gen/agentcfg_pb.ts'
import { ReconcileProjectsRequestSchema, ReconcileProjectsResponseSchema } from '../../../src/proto/gen/flux_pb.ts'
import type { ServerStream } from '../../../src/proto/grpc/server-stream.ts'
import { readOne } from '../../../src/proto/unary.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { kasOf, startSessions } from './agent-side.ts'
import { listen } from './api-server.ts'
import { FakeKas, listenAs } from './fake-kas.ts'
import { FluxApi } from './flux-api.ts'

/** The side of kas of one ReconcileProjects stream. */
export interface PushesStream {
  readonly request: MessageShape<typeof ReconcileProjectsRequestSchema>
  /** full paths of the projects */
  readonly projects: readonly string[]
  readonly stream: ServerStream
  tell(project: string, pushId?: bigint): void
  end(error?: KasError): void
}

/** Starts a kas that gives the streams of pushes to the test. */
export async function startPushesKas(t: Test) {
  const kas = new FakeKas()
  const streams: PushesStream[] = []
  kas.handlers.set(reconcileProjectsMethod, async (stream) => {
    const request = await readOne(ReconcileProjectsRequestSchema, stream.messages)
    stream.sendMetadata({})
    const ended = Promise.withResolvers<void>()
    stream.signal.addEventListener('abort', () => ended.reject(stream.signal.reason))
    streams.push({
      request,
      projects: request.project.map(({ id }) => id),
      stream,
      tell: (id, pushId = 0n) => {
        const response = create(ReconcileProjectsResponseSchema, { project: { id }, pushId })
        void stream.send(toBinary(ReconcileProjectsResponseSchema, response))
      },
      end: (error) => (error ? ended.reject(error) : ended.resolve()),
    })
    await ended.promise
  })
  /** Returns the next opened stream, oldest first. */
  const next = () => eventually(() => streams.shift() ?? Promise.reject(new Error('no stream has been opened')))
  const sessions = await startSessions(t, `grpc://127.0.0.1:${await listenAs(t, kas, 'grpc')}`)
  return { kas, sessions, streams, next }
}

const shortTimes: Partial<FluxOptions> = {
  pollMs: 50,
  settleMs: 20,
  holdMs: 20,
  watch: { firstRetryMs: 20, maxRetryMs: 50, deniedMs: 100, graceMs: 500 },
  webhooks: { retryMs: [20, 50] },
}

/** Starts the module with a kas, an API server and Flux's webhooks. It leads unless the test changes that. */
export async function startFlux(t: Test, prepare: (api: FluxApi) => void = () => undefined, options = shortTimes) {
  const api = await FluxApi.start(t)
  prepare(api)
  const { kas, sessions, next, streams } = await startPushesKas(t)
  const called: string[] = []
  const answers: number[] = []
  const server = createServer((request, response) => {
    called.push(`${request.method} ${request.url}`)
    const status = answers.shift() ?? 200
    response.writeHead(status, status === 302 ? { Location: '/elsewhere' } : {}).end()
  })
  const webhookUrl = `http://127.0.0.1:${await listen(server)}`
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { log, lines } = capturedLog()
  const listeners: (() => void)[] = []
  let isBegun = false
  let leads = true
  const election = {
    identity: 'own',
    leader: 'own',
    holds: () => isBegun && leads,
    onChange: (listener: () => void) => void listeners.push(listener),
  }
  const tellChange = () => listeners.forEach((listener) => void listener())
  /** @param next - true: this pod leads; false: another pod does, and this one knows */
  const lead = (next: boolean) => {
    leads = next
    election.leader = next ? 'own' : 'other'
    tellChange()
  }
  /** Sets whether this pod may act while it knows of no other leader. @param isTold - false: the pod was frozen */
  const hold = (next: boolean, isTold: boolean) => {
    leads = next
    if (isTold) tellChange()
  }
  let current: AgentConfiguration | undefined
  const configured: ((received: AgentConfiguration) => void)[] = []
  const configuration = {
    get current() {
      return current as AgentConfiguration
    },
    onChange: (listener: (received: AgentConfiguration) => void) => void configured.push(listener),
    block: () => () => undefined,
  }
  /** Sends a configuration; the first one begins the election. */
  const configure = (webhookReceiverUrl = webhookUrl) => {
    const gitlabExternalUrl = 'https://gitlab.example.com'
    const received = create(AgentConfigurationSchema, { agentId: 42n, gitlabExternalUrl, flux: { webhookReceiverUrl } })
    current = received
    configured.forEach((listener) => void listener(received))
    isBegun = true
    tellChange()
  }
  const register = new Registry()
  const parts = { kas: kasOf(sessions), configuration, register, clock: systemClock, random: () => 0.5 }
  const flux = createFlux({ ...parts, api: api.client, log: () => log }, { ...shortTimes, ...options })
  assert(flux.lead)
  const terms = new Terms({ election, log }, flux.lead)
  t.teardown(() => terms.stop())
  await terms.start()
  const countOf = async (name: string) => (await register.getSingleMetric(name)?.get())?.values[0]?.value
  const isCalled = (count: number) =>
    eventually(() => called.length >= count || Promise.reject(new Error(`called: ${called.join(', ')}`)))
  const says = (pattern: RegExp) => lines.filter(({ msg }) => pattern.test(String(msg)))
  const isSaid = (pattern: RegExp, count = 1) =>
    eventually(() => says(pattern).length >= count || Promise.reject(new Error(`not said: ${pattern}`)))
  return {
    terms,
    api,
    kas,
    next,
    streams,
    called,
    answers,
    isCalled,
    lead,
    hold,
    configure,
    lines,
    says,
    isSaid,
    webhookUrl,
    countOf,
  }
}
