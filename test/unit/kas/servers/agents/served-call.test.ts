import t from 'tap'
import type { AgentId, Metadata } from '../../../../../src/call/call.ts'
import type { Agent } from '../../../../../src/kas/agent.ts'
import type { DirectoryListener } from '../../../../../src/kas/directory/directory.ts'
import { AgentRates } from '../../../../../src/kas/servers/agents/limits/agent-rates.ts'
import { ServedCall, type ServedCallInit } from '../../../../../src/kas/servers/agents/served-call.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import type { ServerStream } from '../../../../../src/proto/grpc/server-stream.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { someAgent as agent } from '../../../../support/fake-agent-call.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const other: Agent = { ...agent, id: 43n as AgentId }

/** A call on a stream. The directory answers its token with `world.answer`. */
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
    onChange: () => () => undefined,
    ...more,
  }
  const clock = new ManualClock()
  const over: string[] = []
  const rates = new AgentRates(
    { clock, log: capturedLog().log, onOver: (method, outcome) => over.push(`${method} ${outcome}`) },
    { '/test.A/B': { rate: { perSecond: 10, burst: 10, cost: { call: 0, message: 1, kib: 1024 } } } },
  )
  const rate = rates.of('/test.A/B')
  const call = new ServedCall(stream, { directory, agent, token: 'secret', retired: retirement.signal, rate })
  return { call, caller, clock, over, stream, world, asked, sent, room, retirement }
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

t.test('a message comes once it is paid for; work is paid for, too', async (t) => {
  const { call, clock, over } = start() // 'hello' costs 6 of 10 units
  t.equal(call.spend(5), undefined, 'there were as many')
  const messages = call.messages[Symbol.asyncIterator]()
  let value: string | undefined
  const read = messages.next().then((next) => {
    value = Buffer.from(next.value).toString()
  })
  await new Promise(setImmediate)
  clock.advance(99)
  await new Promise(setImmediate)
  t.equal(value, undefined, 'one unit is missing')
  clock.advance(1)
  await read
  t.equal(value, 'hello')
  const paid = call.spend(20)
  clock.advance(2000)
  await paid
  const soon = call.spend(10, 50)
  clock.advance(50)
  await soon
  const rest = call.spend(0)
  clock.advance(949)
  t.equal(clock.pending, 1, 'the rest delays what comes next')
  clock.advance(1)
  await rest
  t.strictSame([...new Set(over)], ['A/B slowed'])
  t.equal(clock.pending, 0)
})

t.test('nothing waits once the call is cut, or served', async (t) => {
  for (const end of ['cut', 'served'] as const) {
    const { call, caller, clock } = start()
    t.equal(call.spend(10), undefined)
    const read = call.messages[Symbol.asyncIterator]().next()
    const paid = call.spend(1)
    await new Promise(setImmediate)
    t.equal(clock.pending, 2)
    if (end === 'cut') caller.abort(new KasError({ code: 'CANCELLED' }))
    else call.served()
    await t.rejects(read, { code: 'CANCELLED' })
    await t.rejects(Promise.resolve(paid), { code: 'CANCELLED' })
    t.equal(clock.pending, 0)
  }
})
