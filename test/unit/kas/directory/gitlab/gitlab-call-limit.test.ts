import t from 'tap'
import {
  GitlabCallLimit,
  type GitlabCallLimitOptions,
  type QueueName,
  type Turn,
} from '../../../../../src/kas/directory/gitlab/gitlab-call-limit.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const { signal } = new AbortController()

function ground(options: Partial<GitlabCallLimitOptions> = {}) {
  const clock = new ManualClock()
  const waits: [allowed: boolean, ms: number][] = []
  const events = { waited: (allowed: boolean, ms: number) => void waits.push([allowed, ms]) }
  const limit = new GitlabCallLimit({ clock, events }, { refillPerSecond: 10, bucketSize: 5, ...options })
  const begun: string[] = []
  const leaves = new Map<string, () => void>()
  const failed: unknown[] = []
  const enterFor = (turn: Turn, name: string, by: AbortSignal = signal) => {
    const entered = (leave: () => void) => {
      begun.push(name)
      leaves.set(name, leave)
    }
    limit.enter(turn, by).then(entered, (error: unknown) => failed.push(error))
  }
  const enter = (name: string, queue: QueueName = 'agents', by: AbortSignal = signal, mayWait?: () => boolean) =>
    enterFor({ queue, ...(mayWait ? { mayWait } : {}) }, name, by)
  /** Waits until promises have settled. */
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  return { clock, limit, waits, begun, leaves, failed, enter, enterFor, settle }
}

t.test('a burst goes at once, the rest by the clock', async (t) => {
  const { clock, waits, begun, enter, settle } = ground()
  for (let i = 1; i <= 8; i++) enter(`call ${i}`)
  await settle()
  t.equal(begun.length, 5)
  clock.advance(99)
  await settle()
  t.equal(begun.length, 5)
  clock.advance(1)
  await settle()
  t.strictSame(begun.slice(5), ['call 6'])
  clock.advance(200)
  await settle()
  t.strictSame(begun.slice(5), ['call 6', 'call 7', 'call 8'], 'in their order')
  t.strictSame(waits.slice(5), [
    [true, 100],
    [true, 200],
    [true, 300],
  ])
  t.equal(clock.pending, 0)
})

t.test('after a silence the burst is there again, and no more', async (t) => {
  const { clock, begun, enter, settle } = ground()
  for (let i = 0; i < 5; i++) enter(`call ${i}`)
  clock.advance(3_600_000)
  for (let i = 0; i < 20; i++) enter(`later ${i}`)
  await settle()
  t.equal(begun.length, 10)
})

t.test('queues take turns', async (t) => {
  const { clock, begun, enter, settle } = ground({ bucketSize: 1 })
  enter('first')
  for (let i = 0; i < 100; i++) enter(`agent ${i}`)
  enter('user', 'users')
  enter('report', 'reports')
  clock.advance(300)
  await settle()
  t.strictSame(begun.toSorted(), ['agent 0', 'first', 'report', 'user'])
})

t.test('only so many at once, in all and in a queue', async (t) => {
  const { begun, leaves, enter, settle } = ground({ bucketSize: 100, maxRunning: 3, maxRunningInQueue: 2 })
  for (const name of ['a1', 'a2', 'a3']) enter(name)
  for (const name of ['u1', 'u2']) enter(name, 'users')
  await settle()
  t.strictSame(begun, ['a1', 'a2', 'u1'])
  leaves.get('u1')?.()
  leaves.get('u1')?.()
  await settle()
  t.strictSame(begun, ['a1', 'a2', 'u1', 'u2'], 'leaving twice counts once')
  leaves.get('a1')?.()
  await settle()
  t.strictSame(begun, ['a1', 'a2', 'u1', 'u2', 'a3'])
})

t.test('who waits too long, or finds too many before it, is refused', async (t) => {
  const { clock, begun, failed, waits, enter, settle } = ground({
    maxRunning: 1,
    maxWaitingInQueue: 2,
    maxWaitMs: 1000,
  })
  for (let i = 0; i < 4; i++) enter(`call ${i}`)
  await settle()
  t.match(failed, [{ code: 'GITLAB_BUSY', spec: { waitedMs: 0 } }])
  clock.advance(1000)
  await settle()
  t.equal(failed.length, 3)
  t.match(failed[2], { code: 'GITLAB_BUSY', spec: { waitedMs: 1000 } })
  t.strictSame(begun, ['call 0'])
  t.equal(waits.filter(([allowed]) => !allowed).length, 3)
})

t.test('who leaves takes no turn', async (t) => {
  const { begun, leaves, failed, enter, settle, clock } = ground({ maxRunning: 1 })
  const leaving = new AbortController()
  enter('one')
  enter('two', 'agents', leaving.signal)
  enter('three')
  await settle()
  const reason = new KasError({ code: 'CANCELLED' })
  leaving.abort(reason)
  leaves.get('one')?.() // before the second one's refusal has arrived
  await settle()
  t.strictSame(begun, ['one', 'three'])
  t.strictSame(failed, [reason])
  leaves.get('three')?.()
  enter('four')
  await settle()
  t.equal(begun.at(-1), 'four', 'no turn was lost')
  t.equal(clock.pending, 0)
  await t.rejects(ground().limit.enter({ queue: 'agents' }, leaving.signal), reason)
})

t.test('calm: half of the burst is left and nobody waits', async (t) => {
  const { limit, clock, enter, settle } = ground({ bucketSize: 4 })
  t.equal(limit.isCalm, true)
  for (let i = 0; i < 3; i++) enter(`call ${i}`)
  await settle()
  t.equal(limit.isCalm, false)
  clock.advance(100)
  t.equal(limit.isCalm, true)
})

t.test("agents' own requests are fewer at once, and disturb nobody when they hang", async (t) => {
  const { limit, begun, leaves, enter, settle } = ground({ bucketSize: 100, refillPerSecond: 100 })
  for (let i = 0; i < 20; i++) enter(`module ${i}`, 'modules')
  await settle()
  t.equal(begun.length, 15)
  t.equal(limit.isCalm, true, 'calls may be tried again')
  for (let i = 0; i < 35; i++) enter(`token ${i}`)
  await settle()
  t.equal(begun.length, 45, 'the other queues have theirs')
  t.equal(limit.isCalm, false)
  leaves.get('module 0')?.()
  await settle()
  t.equal(begun.at(-1), 'module 15')
})

t.test('what may not wait begins where there is plenty of room, or is refused at once', async (t) => {
  const { clock, begun, failed, waits, enter, settle } = ground({ bucketSize: 8 })
  for (let i = 0; i < 5; i++) enter(`unknown ${i}`, 'new_users', signal, () => false)
  await settle()
  t.strictSame(begun, ['unknown 0', 'unknown 1', 'unknown 2'], 'three quarters of the burst are left')
  t.match(failed, [{ code: 'CREDENTIAL_NOT_CHECKED' }, { code: 'CREDENTIAL_NOT_CHECKED' }])
  t.strictSame(
    waits.map(([, ms]) => ms),
    [0, 0, 0, 0, 0],
  )
  for (let i = 0; i < 5; i++) enter(`known ${i}`, 'users')
  await settle()
  t.equal(begun.length, 8)
  t.equal(clock.pending, 0)
})

t.test('what may not wait any more is refused when its turn comes, and takes none', async (t) => {
  const { clock, begun, failed, enter, settle } = ground({ bucketSize: 1 })
  let mayWait = true
  enter('first', 'new_users')
  for (let i = 0; i < 3; i++) enter(`unknown ${i}`, 'new_users', signal, () => mayWait)
  enter('patient', 'new_users', signal, () => true)
  await settle()
  mayWait = false
  clock.advance(100)
  await settle()
  t.strictSame(begun, ['first', 'patient'])
  t.equal(failed.length, 3)
  t.equal(clock.pending, 0)
})

t.test('a crowd of unknown ones is refused when it fills its queue, and leaves room for others', async (t) => {
  const { begun, failed, enter, settle } = ground({ bucketSize: 10_000, refillPerSecond: 10_000 })
  for (const queue of ['new_users', 'new_agents', 'modules', 'projects'] as const) {
    for (let i = 0; i < 2100; i++) enter(`${queue} ${i}`, queue, signal, () => true)
  }
  await settle()
  t.equal(begun.length, 45)
  t.equal(failed.length, 2100 - 1000 - 10 + (2100 - 2000 - 10))
  t.match(failed[0], { code: 'CREDENTIAL_NOT_CHECKED' })
  for (let i = 0; i < 5; i++) enter(`known ${i}`, 'users')
  await settle()
  t.equal(begun.length, 50)
})

t.test('sources take turns: a crowd of one keeps nobody else waiting, nor out', async (t) => {
  const { clock, begun, failed, enterFor, settle } = ground({ bucketSize: 1, maxWaitingInQueue: 4 })
  const mayWait = () => true
  const ask = (source: string, name: string) => enterFor({ queue: 'new_users', mayWait, source }, name)
  for (let i = 0; i < 7; i++) ask('crowd', `crowd ${i}`)
  await settle()
  t.equal(failed.length, 2, 'alone it may have all places')
  ask('one', 'one 0')
  ask('two', 'two 0')
  await settle()
  t.equal(failed.length, 4, 'its latest make room')
  ask('crowd', 'crowd again')
  ask('one', 'one 1')
  await settle()
  t.equal(failed.length, 6, 'who has his share gets no more')
  t.match(failed, Array(6).fill({ code: 'CREDENTIAL_NOT_CHECKED' }))
  clock.advance(100 * 4)
  await settle()
  t.strictSame(begun, ['crowd 0', 'crowd 1', 'one 0', 'two 0', 'crowd 2'])
  t.equal(clock.pending, 0)
})

t.test('when many may not wait any more, they are refused a few at a time', async (t) => {
  const { clock, begun, failed, enterFor, settle } = ground({ bucketSize: 1 })
  let mayWait = true
  for (let i = 0; i < 500; i++) enterFor({ queue: 'new_users', mayWait: () => mayWait, source: 'crowd' }, `${i}`)
  await settle()
  mayWait = false
  const counts: number[] = []
  clock.advance(100)
  for (let before = -1; before < failed.length; clock.advance(1)) {
    before = failed.length
    await settle()
    counts.push(failed.length - before)
  }
  t.equal(failed.length, 499)
  t.ok(Math.max(...counts) <= 50, counts.join())
  t.equal(new Set(failed).size, 1, 'built once')
  t.strictSame(begun, ['0'])
  t.equal(clock.pending, 0)
})

t.test('when many have waited for too long, they are refused a few at a time, by one timer', async (t) => {
  const { clock, begun, leaves, failed, enter, settle } = ground({ maxRunning: 1, maxWaitMs: 1000 })
  for (let i = 0; i < 300; i++) enter(`${i}`)
  clock.advance(500)
  enter('later')
  await settle()
  t.equal(clock.pending, 1)
  clock.advance(499)
  await settle()
  t.equal(failed.length, 0)
  const counts: number[] = []
  for (let before = -1; before < failed.length; ) {
    before = failed.length
    clock.advance(1)
    await settle()
    counts.push(failed.length - before)
  }
  t.equal(failed.length, 299)
  t.ok(Math.max(...counts) <= 50, counts.join())
  leaves.get('0')?.()
  await settle()
  t.strictSame(begun, ['0', 'later'])
  t.equal(clock.pending, 0)
})

t.test('a clock that was put back lets nobody wait for longer', async (t) => {
  const { clock, failed, enter, settle } = ground({ maxRunning: 1, maxWaitMs: 1000 })
  for (let i = 0; i < 3; i++) enter(`${i}`)
  const now = clock.now.bind(clock)
  clock.now = () => now() - 3_600_000
  clock.advance(1000)
  await settle()
  t.equal(failed.length, 2)
  t.equal(clock.pending, 0)
})
