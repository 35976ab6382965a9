import t from 'tap'
import type { AgentId, Metadata } from '../../../../../src/call/call.ts'
import type { Agent } from '../../../../../src/kas/agent.ts'
import type { DirectoryListener } from '../../../../../src/kas/directory/directory.ts'
import { ServedCall, type ServedCallInit } from '../../../../../src/kas/servers/agents/served-call.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import type { ServerStream } from '../../../../../src/proto/grpc/server-session.ts'
import { someAgent as agent } from '../../../../support/fake-agent-call.ts'

const other: Agent = { ...agent, id: 43n as AgentId }

/** A call on a stream, by a token of which the directory says what `answer` is. */
function start(more: Partial<ServedCallInit['directory']> = {}) {
  const caller = new AbortController()
  const retirement = new AbortController()
  const world = { answer: agent as Agent | KasError }
  const asked: [token: string, signal: AbortSignal][] = []
  const sent: unknown[] = []
  const room = Promise.resolve()
  const stream = {
    metadata: { 'kas-features': ['push-id'] },
    messages: (async function* () {
      yield Buffer.from('hello')
    })(),
    signal: caller.signal,
    sendMetadata: (metadata: Metadata) => void sent.push(metadata),
    send(message: Uint8Array) {
      sent.push(message.toString())
      return room
    },
  } as unknown as ServerStream
  const directory: ServedCallInit['directory'] = {
    async agentByToken(token, signal) {
      asked.push([token, signal])
      if (world.answer instanceof KasError) throw world.answer
      return world.answer
    },
    ...more,
  }
  const call = new ServedCall(stream, { directory, agent, token: 'secret', retired: retirement.signal })
  return { call, stream, world, asked, sent, room, retirement }
}

t.test('a module has of the stream what it needs', async (t) => {
  const { call, stream, sent, room, retirement } = start()
  t.match(call, { agent, token: 'secret' })
  t.equal(call.metadata, stream.metadata)
  t.equal(call.signal, stream.signal)
  t.equal(call.retired, retirement.signal)
  call.sendMetadata({ a: ['b'] })
  t.equal(call.send(Buffer.from('x')), room)
  t.strictSame(sent, [{ a: ['b'] }, 'x'])
  const messages: string[] = []
  for await (const message of call.messages) messages.push(message.toString())
  t.strictSame(messages, ['hello'])
})

// wire: stream.revoked
t.test('a token that is void, or of another agent by now, ends the call', async (t) => {
  const { call, stream, world, asked } = start()
  await call.stillValid()
  t.strictSame(asked, [['secret', stream.signal]])
  world.answer = { ...agent, project: { ...agent.project, path: 'platform/moved' } }
  await call.stillValid()
  world.answer = new KasError({ code: 'UNAUTHENTICATED', reason: 'x' })
  await t.rejects(call.stillValid(), world.answer)
  world.answer = new KasError({ code: 'FORBIDDEN' })
  await t.rejects(call.stillValid(), world.answer)
  world.answer = other
  await t.rejects(call.stillValid(), { code: 'UNAUTHENTICATED' }, 'the token of another agent now')
})

t.test('a directory that is away ends nothing', async (t) => {
  const { call, world } = start()
  world.answer = new KasError({ code: 'DIRECTORY_UNAVAILABLE' })
  await t.resolves(call.stillValid())
})

t.test('a listener is called for changes of the directory that may concern the agent', (t) => {
  const listeners = new Set<DirectoryListener>()
  const { call } = start({
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  })
  let calls = 0
  const change = (...agentIds: (ReadonlySet<AgentId> | undefined)[]) => {
    for (const listener of listeners) for (const ids of agentIds) listener(ids)
    return calls
  }
  const forget = call.onDirectoryChange(() => calls++)
  t.equal(change(new Set([other.id])), 0)
  t.equal(change(new Set([other.id, agent.id])), 1)
  t.equal(change(undefined), 2, 'anybody')
  forget()
  t.equal(listeners.size, 0)
  t.end()
})

t.test('a directory without changes', (t) => {
  start().call.onDirectoryChange(() => t.fail('nothing changes'))()
  t.end()
})
