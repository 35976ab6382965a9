import { create, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { Configuration, getConfigurationMethod } from '../../../src/agentk/configuration/configuration.ts'
import { Registrar, registerMethod, unregisterMethod } from '../../../src/agentk/modules/registrar/module.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { KasError } from '../../../src/lib/errors.ts'
import {
  ConfigurationRequestSchema,
  ConfigurationResponseSchema,
} from '../../../src/proto/gen/agent_configuration_pb.ts'
import {
  RegisterRequestSchema,
  RegisterResponseSchema,
  UnregisterRequestSchema,
  UnregisterResponseSchema,
} from '../../../src/proto/gen/agent_registrar_pb.ts'
import type { AgentConfiguration } from '../../../src/proto/gen/agentcfg_pb.ts'
import { AgentMetaSchema } from '../../../src/proto/gen/entity_pb.ts'
import type { ServerStream } from '../../../src/proto/grpc/server-stream.ts'
import { readOne } from '../../../src/proto/unary.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { unaryHandler } from '../../support/unary-handler.ts'
import { kasOf, silentLog, startSessions } from './agent-side.ts'
import { FakeKas, listenAs } from './fake-kas.ts'

const meta = create(AgentMetaSchema, { version: 'v0.0.0', commitId: 'abc', podNamespace: 'ns', podName: 'pod' })
const shared = { log: silentLog, clock: systemClock, random: () => 0 }

/** The side of kas of one configuration stream. */
interface ConfigurationStream {
  request: MessageShape<typeof ConfigurationRequestSchema>
  stream: ServerStream
  send(
    agentId: bigint,
    commitId: string,
    more?: { gitlabExternalUrl?: string; warning?: string[]; moduleBlock?: Record<string, Uint8Array> },
  ): void
  end(error?: KasError): void
}

async function startConfiguration(t: Test) {
  const kas = new FakeKas()
  const streams: ConfigurationStream[] = []
  const waiting: (() => void)[] = []
  kas.handlers.set(getConfigurationMethod, async (stream) => {
    const request = await readOne(ConfigurationRequestSchema, stream.messages)
    stream.sendMetadata({ 'kas-ping-interval-ms': ['5000'] })
    const ended = Promise.withResolvers<void>()
    stream.signal.addEventListener('abort', () => ended.reject(stream.signal.reason))
    streams.push({
      request,
      stream,
      send: (agentId, commitId, { gitlabExternalUrl = 'https://gitlab', warning = [], moduleBlock = {} } = {}) => {
        const response = { configuration: { agentId, gitlabExternalUrl, moduleBlock }, commitId, warning }
        void stream.send(toBinary(ConfigurationResponseSchema, create(ConfigurationResponseSchema, response)))
      },
      end: (error) => (error ? ended.reject(error) : ended.resolve()),
    })
    waiting.shift()?.()
    await ended.promise
  })
  const next = async () => {
    if (streams.length === 0) await new Promise<void>((resolve) => waiting.push(resolve))
    return streams.shift() as ConfigurationStream
  }
  const sessions = await startSessions(t, `grpc://127.0.0.1:${await listenAs(t, kas, 'grpc')}`)
  const pings: number[] = []
  const watched = { ...kasOf(sessions), pingEvery: (_: unknown, ms: number) => void pings.push(ms) }
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const configuration = new Configuration({ ...shared, log, kas: watched, clock }, { meta })
  const received: AgentConfiguration[] = []
  const listening: (() => void)[] = []
  configuration.onChange((each) => {
    received.push(each)
    listening.shift()?.()
  })
  const applied = async () => {
    if (received.length === 0) await new Promise<void>((resolve) => listening.push(resolve))
    return received.shift() as AgentConfiguration
  }
  await configuration.start()
  t.teardown(() => configuration.stop())
  return { kas, clock, configuration, next, applied, pings, received, lines }
}

// wire: agentk.stream.commit, agentk.stream.identity, agentk.configuration.back-off
t.test('the configuration stream', async (t) => {
  const { next, applied, pings, received, clock } = await startConfiguration(t)
  const rested = async () => {
    while (!clock.waits.includes(1000)) await new Promise((resolve) => setImmediate(resolve))
    await clock.pass(1000)
    return await next()
  }
  const first = await next()
  t.match(first.request, { commitId: '', skipRegister: true, agentMeta: { podName: 'pod', version: 'v0.0.0' } })
  t.ok(first.request.agentMeta?.kubernetesVersion, 'empty but present')
  t.same(first.stream.metadata.authorization, ['Bearer token'])
  first.send(7n, 'c1')
  t.equal((await applied()).agentId, 7n)
  t.same(pings, [5000], 'what kas announces reaches the session')
  first.send(8n, 'c2')
  first.send(7n, 'c3', { gitlabExternalUrl: 'https://other' })
  first.send(7n, 'c4')
  t.equal((await applied()).agentId, 7n)
  t.equal(received.length, 0, 'those with another identity are dropped')
  first.end()
  const second = await rested()
  t.equal(second.request.commitId, 'c4', 'after a clean end it is asked again, from the last one applied')
  second.send(8n, 'c5')
  second.end()
  t.equal((await rested()).request.commitId, 'c4', 'a dropped one is not remembered')
})

// wire: agentk.configuration.back-off
t.test('an error is followed by a pause of 10 s, a lost connection by none', async (t) => {
  const { kas, next, clock } = await startConfiguration(t)
  ;(await next()).end(new KasError({ code: 'CONFIGURATION_INVALID', detail: 'bad' }))
  while (!clock.waits.includes(10_000)) await new Promise((resolve) => setImmediate(resolve))
  await clock.pass(10_000)
  await next()
  kas.sessions[0]?.destroy()
  await next()
  t.notOk(clock.waits.some((ms) => ms >= 10_000))
})

// wire: file.unknown
t.test('what kas says of keys without effect is in the log of the agent', async (t) => {
  const { next, applied, lines } = await startConfiguration(t)
  const stream = await next()
  stream.send(7n, 'c1', { warning: ['ci_acces: this key is not known, did you mean ci_access?'] })
  await applied()
  const told = lines.filter(({ level }) => level === 'warn')
  t.match(told, [{ commit_id: 'c1', warning: 'ci_acces: this key is not known, did you mean ci_access?' }])
})

t.test('a module reads its block of the file, as it is now', async (t) => {
  const { configuration, next, applied, lines } = await startConfiguration(t)
  t.throws(() => configuration.current, /no configuration has come yet/)
  const echo = configuration.block('echo', (json) => {
    const { word } = json as { word?: unknown }
    if (typeof word !== 'string') throw new Error('word: expected a string')
    return word
  })
  t.equal(echo(), undefined)
  const stream = await next()
  const sent = async (commitId: string, text?: string) => {
    const moduleBlock = { other: Buffer.from('1'), ...(text === undefined ? {} : { echo: Buffer.from(text) }) }
    stream.send(7n, commitId, { moduleBlock })
    t.equal(await applied(), configuration.current)
    return echo()
  }
  t.equal(await sent('c1', '{"word":"hello"}'), 'hello')
  t.equal(await sent('c2'), undefined, 'it is no longer there')
  t.equal(await sent('c3', '{"word":1}'), undefined)
  t.equal(await sent('c4', '{'), undefined)
  t.match(
    lines.filter(({ level }) => level === 'error'),
    [
      { key: 'echo', reason: 'word: expected a string' },
      { key: 'echo', reason: /JSON/ },
    ],
    'each that cannot be read is logged once',
  )
  t.equal(await sent('c5', '{"word":"again"}'), 'again')
})

// wire: agentk.stream.commit-id
t.test('a response without commit id is refused', async (t) => {
  const { next } = await startConfiguration(t)
  const stream = await next()
  const gone = new Promise((resolve) => stream.stream.signal.addEventListener('abort', resolve))
  stream.send(7n, '')
  await gone
})

// wire: agentk.register.period, agentk.unregister
const server = new URL('https://10.0.0.1')

t.test('registration', async (t) => {
  const kas = new FakeKas()
  const seen: MessageShape<typeof RegisterRequestSchema>[] = []
  const waiting: (() => void)[] = []
  kas.handlers.set(
    registerMethod,
    unaryHandler(RegisterRequestSchema, RegisterResponseSchema, async (request) => {
      seen.push(request)
      waiting.shift()?.()
      return create(RegisterResponseSchema)
    }),
  )
  const left = Promise.withResolvers<MessageShape<typeof UnregisterRequestSchema>>()
  kas.handlers.set(unregisterMethod, async (stream) => {
    for await (const bytes of stream.messages) left.resolve(fromBinary(UnregisterRequestSchema, bytes))
    void stream.send(toBinary(UnregisterResponseSchema, create(UnregisterResponseSchema)))
  })
  const registered = async () => {
    if (seen.length === 0) await new Promise<void>((resolve) => waiting.push(resolve))
    return seen.shift()
  }
  const sessions = await startSessions(t, `grpc://127.0.0.1:${await listenAs(t, kas, 'grpc')}`)
  const clock = new ManualClock()
  const kubernetesVersion = async () => ({ major: '1', minor: '35', gitVersion: 'v1.35.4', platform: 'linux/amd64' })
  const registrar = new Registrar({ ...shared, kas: kasOf(sessions), kubernetesVersion, clock }, { meta, server })
  await registrar.start()
  t.teardown(() => registrar.stop())
  const first = await registered()
  t.match(first, { agentMeta: { podNamespace: 'ns', kubernetesVersion: { minor: '35', gitVersion: 'v1.35.4' } } })
  t.ok((first?.podId ?? 0n) > 0n)
  while (!clock.waits.includes(300_000)) await new Promise((resolve) => setImmediate(resolve))
  await clock.pass(300_000)
  t.equal((await registered())?.podId, first?.podId, 'again after five minutes')
  while (!clock.waits.includes(300_000)) await new Promise((resolve) => setImmediate(resolve))
  kas.sessions[0]?.destroy()
  t.equal((await registered())?.podId, first?.podId, 'again on a new connection')
  while (!clock.waits.includes(300_000)) await new Promise((resolve) => setImmediate(resolve))
  await registrar.stop()
  t.equal((await left.promise).podId, first?.podId)
})

// wire: agentk.unregister
t.test('a kas that knows no Unregister, and a cluster that says no version', async (t) => {
  const kas = new FakeKas()
  const seen = Promise.withResolvers<MessageShape<typeof RegisterRequestSchema>>()
  kas.handlers.set(
    registerMethod,
    unaryHandler(RegisterRequestSchema, RegisterResponseSchema, async (request) => {
      seen.resolve(request)
      return create(RegisterResponseSchema)
    }),
  )
  const sessions = await startSessions(t, `grpc://127.0.0.1:${await listenAs(t, kas, 'grpc')}`)
  const kubernetesVersion = () => Promise.reject(new Error('forbidden'))
  const clock = new ManualClock()
  const registrar = new Registrar({ ...shared, kas: kasOf(sessions), kubernetesVersion, clock }, { meta, server })
  await registrar.start()
  t.ok((await seen.promise).agentMeta?.kubernetesVersion, 'the pod is seen all the same')
  while (clock.waits.length === 0) await new Promise((resolve) => setImmediate(resolve))
  await registrar.stop()
})
