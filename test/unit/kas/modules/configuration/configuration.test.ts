import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import type { Metadata } from '../../../../../src/call/call.ts'
import type { Agent } from '../../../../../src/kas/agent.ts'
import { parseAgentConfiguration } from '../../../../../src/kas/agent-config/agent-config-file.ts'
import type { AgentConfiguration } from '../../../../../src/kas/agent-config/agent-config-reader.ts'
import { getConfiguration } from '../../../../../src/kas/modules/configuration/configuration.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import {
  ConfigurationRequestSchema,
  ConfigurationResponseSchema,
} from '../../../../../src/proto/gen/agent_configuration_pb.ts'
import { writeFeatures } from '../../../../../src/proto/placement.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { someAgent as agent, FakeAgentCall } from '../../../../support/fake-agent-call.ts'
import { ManualClock, settle } from '../../../../support/manual-clock.ts'

const settled = () => settle(8)
const at = (commit: string, text = ''): AgentConfiguration => ({
  commit: commit as CommitId,
  configuration: parseAgentConfiguration('c.yaml', Buffer.from(text)),
  seenAt: 0,
  since: 0,
})

interface World {
  answer: AgentConfiguration | undefined | KasError
}

function start(t: Test, first: Partial<World> & { request?: Uint8Array; metadata?: Metadata } = {}) {
  const world: World = { answer: at('one'), ...first }
  const listeners = new Set<() => void>()
  const clock = new ManualClock()
  const pods: string[] = []
  const request = first.request ?? toBinary(ConfigurationRequestSchema, create(ConfigurationRequestSchema))
  const serve = getConfiguration(
    {
      agentConfig: {
        newest: async () => {
          if (world.answer instanceof KasError) throw world.answer
          return world.answer
        },
        onChange: (_agent, listener) => {
          listeners.add(listener)
          return () => listeners.delete(listener)
        },
      },
      register: (_agent, meta) => {
        pods.push(Buffer.from(meta).toString('hex'))
        return () => pods.push('gone')
      },
      clock,
      log: capturedLog().log,
    },
    { gitlabExternalUrl: 'https://gitlab.example.com', pollMs: 300_000 },
  )
  const call = new FakeAgentCall({ messages: [request], ...(first.metadata && { metadata: first.metadata }) })
  const done = call.servedBy(serve)
  const opened = [{ call, done }]
  /** Opens one more stream. Returns the messages that it gets. */
  const another = (ofAgent: Agent): readonly Uint8Array[] => {
    const other = new FakeAgentCall({ agent: ofAgent, messages: [request] })
    opened.push({ call: other, done: other.servedBy(serve) })
    return other.sent
  }
  t.teardown(async () => {
    for (const one of opened) one.call.retire()
    await Promise.all(opened.map((one) => one.done))
    const listening = opened.reduce((sum, one) => sum + one.call.directoryListeners, listeners.size)
    if (listening + clock.pending > 0) throw new Error('something is left behind')
  })
  const move = async (answer: World['answer']) => {
    world.answer = answer
    for (const listener of listeners) listener()
    await settled()
  }
  const changeDirectory = async (invalid?: KasError) => {
    call.invalid = invalid
    call.directoryChanged()
    await settled()
  }
  const { sent } = call
  const commits = () => sent.map((message) => fromBinary(ConfigurationResponseSchema, message).commitId)
  return { call, done, another, sent, commits, pods, clock, move, changeDirectory }
}

// wire: 8150.GetConfiguration, stream.first, stream.filled, stream.user-access
t.test('the configuration is sent at once, filled in, without user_access', async (t) => {
  const text =
    'ci_access: { projects: [{ id: x }] }\nuser_access: { access_as: { agent: {} }, projects: [{ id: x }] }\nobservability: { logging: { level: warn } }'
  const { call, sent } = start(t, { answer: at('one', text) })
  await settled()
  t.same(call.sentMetadata, [{ 'kas-ping-interval-ms': ['5000'] }])
  const response = fromBinary(ConfigurationResponseSchema, sent[0] ?? new Uint8Array())
  t.match(response, {
    commitId: 'one',
    configuration: {
      agentId: 42n,
      projectId: 7n,
      projectPath: 'platform/clusters',
      gitlabExternalUrl: 'https://gitlab.example.com',
      ciAccess: { projects: [{ id: 'x' }] },
      observability: { logging: { level: 2 } },
    },
  })
  t.notMatch(Buffer.from(sent[0] ?? []).toString('latin1'), 'user_access')
  t.equal(response.configuration?.$unknown, undefined, 'no field beyond those of AgentConfiguration')
})

t.test('blocks that modules own are sent as JSON; without one the field is absent', async (t) => {
  const plain = at('one')
  const json = '{"word":"ahoy"}'
  const { sent, move } = start(t, { answer: plain })
  await settled()
  await move({ ...at('two'), blocks: new Map([['echo', { json, value: { word: 'ahoy' } }]]) })
  const blocks = sent.map((message) => fromBinary(ConfigurationResponseSchema, message).configuration?.moduleBlock)
  t.strictSame(blocks, [{}, { echo: new Uint8Array(Buffer.from(json)) }])
})

t.test('a pod without a feature gets the block for older ones, whoever asked before', async (t) => {
  const older = { feature: 'gitops-drift', json: '{"for":"older"}' }
  const answer = { ...at('one'), blocks: new Map([['gitops', { json: '{"for":"all"}', value: {}, older }]]) }
  const blockOf = ([message]: readonly Uint8Array[]) => {
    const { configuration } = fromBinary(ConfigurationResponseSchema, message ?? new Uint8Array())
    return Buffer.from(configuration?.moduleBlock.gitops ?? []).toString()
  }
  const metadata = writeFeatures('other', 'gitops-drift')
  const newer = start(t, { answer, metadata })
  await settled()
  const sentToOlder = newer.another(agent)
  await settled()
  t.equal(blockOf(newer.sent), '{"for":"all"}')
  t.equal(blockOf(sentToOlder), '{"for":"older"}')
})

// wire: file.unknown
t.test('what has no effect in the file is reported to the agent, bounded', async (t) => {
  const { sent, move } = start(t, { answer: at('one', 'ci_acces: {}') })
  await settled()
  await move(at('two', Array.from({ length: 100 }, (_, i) => `x${i}: 1`).join('\n')))
  const warnings = sent.map((message) => fromBinary(ConfigurationResponseSchema, message).warning)
  t.strictSame(warnings[0], ['ci_acces: this key is not known, did you mean ci_access?'])
  t.equal(warnings[1]?.length, 21)
  t.equal(warnings[1]?.at(-1), 'and 80 more')
})

// wire: stream.each-commit
t.test('each new commit is sent, the one that the agent has is not', async (t) => {
  const request = toBinary(ConfigurationRequestSchema, create(ConfigurationRequestSchema, { commitId: 'one' }))
  const { commits, move } = start(t, { request })
  await settled()
  t.same(commits(), [])
  await move(at('two'))
  await move(at('two'))
  await move(at('three'))
  t.same(commits(), ['two', 'three'])
})

// wire: stream.empty-repository, stream.gitaly-away
t.test('an empty repository and one that cannot be read are waited for', async (t) => {
  const { commits, move } = start(t, { answer: undefined })
  await move(new KasError({ code: 'REPOSITORY_FAILED', detail: 'x' }))
  t.same(commits(), [])
  await move(at('one'))
  t.same(commits(), ['one'])
})

// wire: error.stream.user, error.stream.ref
t.test('a mistake in the file and a missing branch end the stream', async (t) => {
  for (const [error, code, text] of [
    [new KasError({ code: 'CONFIGURATION_INVALID', detail: 'bad' }), 9, 'Config: bad'],
    [new KasError({ code: 'REF_NOT_FOUND', ref: 'refs/heads/main' }), 5, 'ref refs/heads/main not found'],
  ] as const) {
    const { done, move, commits } = start(t)
    await settled()
    await move(error)
    t.equal(await done, error)
    t.equal(error.grpcCode, code)
    t.equal(error.message, text)
    t.same(commits(), ['one'], 'what was sent before stays sent')
  }
})

// wire: stream.age
t.test('the stream ends with OK when its connection retires, with the reason when the caller leaves', async (t) => {
  const retired = start(t)
  await settled()
  retired.call.retire()
  t.equal(await retired.done, 'OK')
  const left = start(t)
  await settled()
  const reason = new KasError({ code: 'CANCELLED' })
  left.call.cut(reason)
  t.equal(await left.done, reason)
})

// wire: stream.revoked
t.test(
  'a token that became void ends the stream: at once when the directory changes, else at the next poll',
  async (t) => {
    const unauthenticated = new KasError({ code: 'UNAUTHENTICATED' })
    const notified = start(t)
    await settled()
    await notified.changeDirectory(unauthenticated)
    t.equal(await notified.done, unauthenticated)
    const polled = start(t)
    await settled()
    polled.call.invalid = unauthenticated
    polled.clock.advance(300_000)
    t.equal(await polled.done, unauthenticated)
    const valid = start(t)
    await settled()
    await valid.changeDirectory()
    await valid.move(at('two'))
    t.same(valid.commits(), ['one', 'two'], 'any other change ends nothing')
  },
)

// wire: 8150.register.by-configuration
t.test('an old agent registers by this call: with agent_meta, unless it says that it does so itself', async (t) => {
  const agentMeta = { version: 'v15', kubernetesVersion: {} }
  const request = (skipRegister: boolean) =>
    toBinary(ConfigurationRequestSchema, create(ConfigurationRequestSchema, { agentMeta, skipRegister }))
  const old = start(t, { request: request(false) })
  await settled()
  t.same(old.pods, ['0a037631352a00'])
  old.call.retire()
  await old.done
  t.equal(old.pods.at(-1), 'gone')
  const newer = start(t, { request: request(true) })
  await settled()
  t.same(newer.pods, [])
})

// wire: error.agent.invalid
t.test('a malformed request is refused', async (t) => {
  const { done } = start(t, { request: Buffer.from([0x0a, 0x05]) })
  t.match(await done, { code: 'INVALID_MESSAGE' })
})

t.test('what all streams of an agent get is encoded once', async (t) => {
  const { sent, another, move } = start(t)
  const same = another({ ...agent })
  const moved = another({ ...agent, project: { ...agent.project, path: 'platform/moved' } })
  await settled()
  await move(at('two', 'ci_access: { projects: [{ id: x }] }'))
  t.equal(sent.length, 2)
  for (const i of [0, 1]) t.equal(same[i], sent[i], 'the same bytes, not a copy')
  const { configuration } = fromBinary(ConfigurationResponseSchema, moved.at(-1) ?? new Uint8Array())
  t.equal(configuration?.projectPath, 'platform/moved')
})
