import { EventEmitter, once } from 'node:events'
import t, { type Test } from 'tap'
import { mayImpersonateNobody } from '../../../../../../src/agentk/cluster/may-impersonate.ts'
import type { ThreadSettings, ViewsFacts } from '../../../../../../src/agentk/modules/views/thread/thread-messages.ts'
import { ViewsThread } from '../../../../../../src/agentk/modules/views/thread/views-thread.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

t.setTimeout(60_000)
const program = new URL('./thread-program.ts', import.meta.url)
const cluster = { server: 'http://127.0.0.1' }
const rules = { users: [], vendors: [], last: [], unread: [], named: [] }
const settings: ThreadSettings = {
  cluster,
  watched: cluster,
  logLevel: 'silent',
  configuration: {},
  rules,
  heapMb: 32,
  mayImpersonate: mayImpersonateNobody,
}

function start(t: Test, own: ThreadSettings = settings) {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const told = new EventEmitter()
  const onFacts = (facts: ViewsFacts) => void told.emit('facts', facts)
  const onRules = (good: unknown) => void told.emit('rules', good)
  const ends = { count: 0 }
  const onEnded = () => void ends.count++
  const thread = new ViewsThread({ onFacts, onRules, onEnded, log, clock, random: () => 0 }, { program })
  const ending = new AbortController()
  const run = thread.run(own, ending.signal)
  t.teardown(async () => {
    ending.abort()
    await run
  })
  return { thread, clock, lines, told, ending, run, ends }
}

/** Opens a stream. The test sends its messages and ends it. */
function open(thread: ViewsThread, signal = new AbortController().signal) {
  const waiting: ((result: IteratorResult<Uint8Array>) => void)[] = []
  const queue: IteratorResult<Uint8Array>[] = []
  const push = (result: IteratorResult<Uint8Array>) => {
    const waiter = waiting.shift()
    if (waiter) waiter(result)
    else queue.push(result)
  }
  const next = (): Promise<IteratorResult<Uint8Array>> => {
    const found = queue.shift()
    return found ? Promise.resolve(found) : new Promise((resolve) => waiting.push(resolve))
  }
  const reply = thread.follow({ messages: { [Symbol.asyncIterator]: () => ({ next }) }, signal })
  const answers = reply.messages[Symbol.asyncIterator]()
  return {
    reply,
    send: (text: string) => push({ value: Buffer.from(text), done: false }),
    end: () => push({ value: undefined, done: true }),
    read: async () => {
      const { value, done } = await answers.next()
      return done ? undefined : Buffer.from(value as Uint8Array).toString()
    },
    leave: () => answers.return?.(),
  }
}

t.test('a thread that keeps the priority of calls goes on, and says so once', async (t) => {
  const { thread, lines } = start(t)
  const { send, read } = open(thread)
  for (const text of ['keeps priority', 'keeps priority']) {
    send(text)
    t.equal(await read(), text)
  }
  t.match(lines, [{ level: 'warn', reason: 'EACCES' }])
  t.equal(lines.length, 1)
})

t.test('bytes pass, and each stream has its own answers', async (t) => {
  const { thread, told } = start(t)
  const [one, two] = [open(thread), open(thread)]
  one.send('a')
  two.send('b')
  t.equal(await one.read(), 'a')
  t.equal(await two.read(), 'b')
  const sent = once(told, 'facts')
  two.send('c')
  t.equal(await two.read(), 'c')
  t.strictSame(await sent, [{ kinds: 1, objects: 2, state: 'live', rulesAside: [] }], 'what was taken is told')
  two.end()
  t.equal(await two.read(), undefined)
  t.equal((await two.reply.done).error, undefined)
  one.send('fail')
  t.equal(await one.read(), undefined)
  t.match((await one.reply.done).error, { code: 'INVALID_MESSAGE' })
})

for (const [text, why] of [
  ['exit', /it ended with 0/],
  ['fill', /out of memory|memory limit/i],
] as const) {
  t.test(`${text}: it alone ends, and starts again`, async (t) => {
    const { thread, clock, lines } = start(t)
    const one = open(thread)
    one.send(text)
    t.equal(await one.read(), undefined)
    t.match((await one.reply.done).error, { code: 'UNREACHABLE' })
    t.throws(() => open(thread), { code: 'UNREACHABLE' }, 'not yet')
    while (clock.pending === 0) await new Promise(setImmediate)
    t.match(lines.at(-1), { msg: 'The thread of views has ended, and starts again', error: { message: why } })
    clock.advance(1000)
    await new Promise(setImmediate)
    const two = open(thread)
    two.send('again')
    t.equal(await two.read(), 'again')
  })
}

t.test('one that is silent ends after 5 pings without an answer, not sooner, and is counted', async (t) => {
  const { ends, thread, clock, lines } = start(t)
  const one = open(thread)
  one.send('a')
  t.equal(await one.read(), 'a')
  one.send('hang')
  await new Promise(setImmediate) // before the first ping, which the thread would answer
  for (let i = 0; i < 5; i++) {
    clock.advance(1000)
    await new Promise(setImmediate)
  }
  t.strictSame(lines, [])
  clock.advance(1000)
  t.equal(await one.read(), undefined)
  t.match((await one.reply.done).error, { code: 'UNREACHABLE' })
  while (lines.length === 0) await new Promise(setImmediate)
  t.match(lines[0], { error: { message: 'it was silent for too long' } })
  t.equal(ends.count, 1)
})

const rule = (kind: string) => ({ kind, let: {}, rules: [{ when: 'true', verdict: 'Healthy' as const }], tests: [] })
const withRules = {
  ...settings,
  rules: { ...rules, users: [rule('ConfigMap'), rule('Pod')], last: [rule('ConfigMap')], named: ['Pod', 'ConfigMap'] },
}

/** Makes the thread hang by such a request. Returns the kinds that the next thread has rules for. */
async function fallSilent(t: Test, how: string) {
  const ground = start(t, withRules)
  const { thread, clock, lines } = ground
  const one = open(thread)
  one.send('a')
  t.equal(await one.read(), 'a')
  one.send(how)
  await new Promise(setImmediate) // before the first ping, which the thread would answer
  for (let i = 0; i < 6; i++) {
    clock.advance(1000)
    await new Promise((resolve) => setTimeout(resolve, 50)) // time for the thread to get the request and work on it
  }
  t.equal(await one.read(), undefined)
  while (lines.length === 0 || clock.pending === 0) await new Promise(setImmediate)
  clock.advance(1000)
  await new Promise(setImmediate)
  const next = open(thread)
  next.send('kinds')
  return { ...ground, kinds: JSON.parse((await next.read()) ?? '') }
}

t.test('a rule in which the thread was silent is put aside, with its last form, and named', async (t) => {
  const { kinds, lines } = await fallSilent(t, 'slow rule')
  t.strictSame(kinds.used, ['Pod'])
  t.match(kinds.aside, [
    { kind: 'ConfigMap', isKept: false, isAside: true, problem: /^health\[1\]\.rules\[2\] took more than 5 s/ },
  ])
  t.match(lines, [
    { error: { message: 'it was silent for too long' } },
    { file: 'views.yaml', kind: 'ConfigMap', rule: 'health[1].rules[2]', object: 'shop/slow', msg: /is put aside/ },
  ])
})

t.test('a thread that is silent in no rule, or in one after another, puts none aside', async (t) => {
  for (const how of ['hang', 'many rules']) {
    const { kinds, lines } = await fallSilent(t, how)
    t.strictSame(kinds, { used: ['ConfigMap', 'Pod'], aside: [] }, how)
    t.equal(lines.length, 1, how)
  }
})

t.test('a caller that leaves, or is cut, ends its stream', async (t) => {
  const { thread } = start(t)
  const one = open(thread)
  one.send('a')
  t.equal(await one.read(), 'a')
  await one.leave()
  t.equal(await one.read(), undefined)
  const controller = new AbortController()
  const two = open(thread, controller.signal)
  controller.abort(new KasError({ code: 'CANCELLED' }))
  t.match((await two.reply.done).error, { code: 'CANCELLED' })
  t.equal(await two.read(), undefined)
})

t.test('streams are counted', async (t) => {
  const { thread } = start(t)
  const streams = Array.from({ length: 100 }, () => open(thread))
  t.throws(() => open(thread), { code: 'TOO_MANY_STREAMS' })
  streams[0]?.end()
  t.equal(await streams[0]?.read(), undefined)
  t.doesNotThrow(() => open(thread))
})

t.test('when it is ended its streams end', async (t) => {
  const { thread, ending, run, ends } = start(t)
  const one = open(thread)
  ending.abort()
  await run
  t.match((await one.reply.done).error, { code: 'UNREACHABLE' })
  t.equal(ends.count, 0, 'it was ended: it has not ended by itself')
})

t.test('each thread is told that views.yaml cannot be used, and says which rules can', async (t) => {
  const { thread, told, lines, clock } = start(t)
  const said = async () => {
    const one = open(thread)
    one.send('unusable')
    return await one.read()
  }
  t.equal(await said(), '')
  thread.unusable('line 1: no')
  t.equal(await said(), 'line 1: no')
  const good = once(told, 'rules')
  open(thread).send('rules')
  t.strictSame(await good, [[{ kind: 'Pod', let: {}, rules: [], tests: [] }]])
  open(thread).send('exit')
  while (lines.length === 0) await new Promise(setImmediate)
  clock.advance(1000)
  await new Promise(setImmediate)
  t.equal(await said(), 'line 1: no', 'the next one too')
})
