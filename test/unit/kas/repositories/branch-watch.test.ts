import t from 'tap'
import { BranchWatch } from '../../../../src/kas/repositories/branch-watch.ts'
import type { CommitId } from '../../../../src/kas/repositories/repositories.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'

const signal = new AbortController().signal
const settled = () => settle(5)

function watch() {
  const clock = new ManualClock()
  const state = { answer: 'a' as string | undefined | KasError, polled: 0 }
  const poll = async () => {
    state.polled++
    if (state.answer instanceof KasError) throw state.answer
    return state.answer as CommitId | undefined
  }
  const components = { poll, clock, log: capturedLog().log, random: () => 0 }
  return { clock, state, components, branch: new BranchWatch(components, { pollMs: 1000, maxBackoffMs: 60_000 }) }
}

t.test('questions at once share a poll, and a recent one answers for a poll period', async (t) => {
  const { branch, clock, state } = watch()
  t.teardown(() => branch.stop())
  t.same(await Promise.all([branch.head(signal), branch.head(signal)]), ['a', 'a'])
  t.equal(state.polled, 1)
  state.answer = 'b'
  clock.advance(999)
  t.equal(await branch.head(signal), 'a')
  clock.advance(1)
  const seenAt = clock.now()
  t.equal(await branch.head(signal), 'b')
  clock.advance(500)
  t.equal(await branch.head(signal), 'b')
  t.equal(branch.seenAt, seenAt)
  t.equal(clock.pending, 0, 'nobody listens, nothing polls')
})

t.test('listeners are told of moves, of failures and of recovery, once each', async (t) => {
  const { branch, clock, state } = watch()
  t.teardown(() => branch.stop())
  let told = 0
  const detach = branch.onMove(() => told++)
  clock.advance(0)
  await settled()
  t.equal(state.polled, 1)
  t.equal(told, 0, 'the first sight is no move')
  const steps: [string | undefined | KasError, number][] = [
    ['a', 0],
    ['b', 1],
    ['b', 1],
    [undefined, 2],
    [new KasError({ code: 'REPOSITORY_FAILED', detail: 'x' }), 3],
    ['b', 4],
  ]
  for (const [answer, expected] of steps) {
    state.answer = answer
    clock.advance(1000)
    await settled()
    if (answer === 'b' && expected === 4) clock.advance(1000) // the pause doubles after a failure
    await settled()
    t.equal(told, expected)
  }
  detach()
  t.equal(clock.pending, 0)
})

t.test('when the repository could be read last is known while it cannot, also by a peer', async (t) => {
  const { branch, clock, state } = watch()
  t.teardown(() => branch.stop())
  t.equal(branch.readAt, undefined)
  t.teardown(branch.onMove(() => undefined))
  clock.advance(0)
  await settled()
  const readAt = clock.now()
  state.answer = new KasError({ code: 'REPOSITORY_FAILED', detail: 'x' })
  clock.advance(1000)
  await settled()
  t.match(branch, { isFailing: true, readAt })
  branch.peerRead(readAt + 500)
  branch.peerRead(readAt - 500)
  t.equal(branch.readAt, readAt + 500)
  state.answer = new KasError({ code: 'REF_NOT_FOUND', ref: 'gone' })
  clock.advance(2000)
  await settled()
  t.equal(branch.readAt, clock.now(), 'that a ref is not there was read')
})

t.test('what was seen long before anybody listened is not taken for news of today', async (t) => {
  const { branch, clock, state } = watch()
  t.teardown(() => branch.stop())
  await branch.head(signal)
  clock.advance(3_600_000)
  state.answer = 'b'
  let told = 0
  t.teardown(branch.onMove(() => told++))
  t.equal(await branch.head(signal), 'b')
  t.equal(told, 1)
})

t.test('failures in a row are asked less and less often', async (t) => {
  const { branch, clock, state } = watch()
  t.teardown(() => branch.stop())
  t.teardown(branch.onMove(() => undefined))
  state.answer = new KasError({ code: 'REPOSITORY_FAILED', detail: 'x' })
  for (let i = 0; i < 600; i++) {
    clock.advance(1000)
    await new Promise(setImmediate)
    await new Promise(setImmediate)
  }
  t.ok(state.polled >= 14 && state.polled <= 17, `${state.polled} looks in 10 minutes`)
  await t.rejects(branch.head(signal), { code: 'REPOSITORY_FAILED' }, 'a failure counts as seen')
})

t.test('stop ends the polls and waits for a running look', async (t) => {
  const { branch, clock } = watch()
  branch.onMove(() => undefined)
  clock.advance(0)
  await branch.stop()
  t.equal(clock.pending, 0)
  await t.rejects(branch.head(signal), { code: 'SHUTTING_DOWN' })
})

t.test('after a first failure it looks again sooner than after a success, if told so', async (t) => {
  const clock = new ManualClock()
  let looks = 0
  const poll = async () => {
    looks++
    throw new KasError({ code: 'REPOSITORY_FAILED', detail: 'x' })
  }
  const options = { pollMs: 300_000, minBackoffMs: 10_000, maxBackoffMs: 60_000 }
  const branch = new BranchWatch({ poll, clock, log: capturedLog().log, random: () => 0 }, options)
  t.teardown(() => branch.stop())
  t.teardown(branch.onMove(() => undefined))
  clock.advance(0)
  for (const [pause, expected] of [
    [9_999, 1],
    [1, 2],
    [20_000, 3],
    [40_000, 4],
    [60_000, 5],
    [60_000, 6],
  ] as const) {
    await settled()
    clock.advance(pause)
    t.equal(looks, expected)
  }
})

t.test('who tells of a push while a look runs gets one that began later', async (t) => {
  const clock = new ManualClock()
  const answers: ((commit: CommitId) => void)[] = []
  const poll = () => new Promise<CommitId>((resolve) => answers.push(resolve))
  const components = { poll, clock, log: capturedLog().log, random: () => 0 }
  const branch = new BranchWatch(components, { pollMs: 1000, maxBackoffMs: 60_000 })
  const running = branch.head(signal)
  const polls = [branch.pollNow(), branch.pollNow()]
  await settled()
  t.equal(answers.length, 1)
  answers[0]?.('a' as CommitId)
  t.equal(await running, 'a')
  await settled()
  t.equal(answers.length, 2)
  answers[1]?.('b' as CommitId)
  await Promise.all(polls)
  t.equal(answers.length, 2, 'one for both')
  t.equal(await branch.head(signal), 'b')
  await branch.stop()
})

t.test('a branch that is not there is looked at like any other', async (t) => {
  const { branch, clock, state } = watch()
  t.teardown(() => branch.stop())
  state.answer = new KasError({ code: 'REF_NOT_FOUND', ref: 'refs/heads/main' })
  t.teardown(branch.onMove(() => undefined))
  for (let looks = 0; looks < 4; looks++) {
    clock.advance(looks === 0 ? 0 : 1000)
    await settled()
    t.equal(state.polled, looks + 1)
  }
})

t.test('who does not poll is told of moves, and looks by itself once in four polls', async (t) => {
  const { clock, state, components } = watch()
  let leads = false
  const found: unknown[] = []
  const branch = new BranchWatch(
    { ...components, polls: () => leads, onFound: () => found.push(state.answer) },
    { pollMs: 1000, maxBackoffMs: 60_000 },
  )
  t.teardown(() => branch.stop())
  let told = 0
  t.teardown(branch.onMove(() => told++))
  const advance = async (ms: number) => {
    clock.advance(ms)
    await settled()
  }
  await advance(0)
  t.equal(state.polled, 1, 'once at first')
  await advance(3000)
  t.equal(state.polled, 1)
  state.answer = 'b'
  await branch.pollNow()
  t.same([state.polled, told, found], [2, 1, []], 'a move that it was told of')
  await advance(3000)
  t.equal(state.polled, 2)
  state.answer = 'c'
  await advance(1000)
  t.same([state.polled, told, found], [3, 2, ['c']], 'one that nobody told')
  state.answer = 'c2'
  await branch.pollNow(false)
  t.same([state.polled, told, found], [4, 3, ['c', 'c2']], 'nor this one, which was asked for here')
  leads = true
  state.answer = 'd'
  await advance(1000)
  t.same([state.polled, told, found], [5, 4, ['c', 'c2', 'd']])
  const gone = new KasError({ code: 'REF_NOT_FOUND', ref: 'refs/tags/v2' })
  for (const answer of [gone, undefined, 'd']) {
    state.answer = answer
    await advance(1000)
    t.equal(found.at(-1), answer, 'that it has gone, or come back, is news as well')
  }
  state.answer = new KasError({ code: 'REPOSITORY_FAILED', detail: 'x' })
  await advance(1000)
  t.equal(found.at(-1), 'd', 'a failure may be of this replica alone')
})

t.test('looks in an hour, at the poll period of upstream: a push that is told takes the place of a poll', async (t) => {
  const minutes = 60
  const looksWith = async (leads: boolean, pushes: number) => {
    const { components, clock, state } = watch()
    const branch = new BranchWatch({ ...components, polls: () => leads }, { pollMs: 300_000, maxBackoffMs: 300_000 })
    branch.onMove(() => undefined)
    clock.advance(0)
    await settled()
    for (let minute = 1; minute <= minutes; minute++) {
      clock.advance(60_000)
      await settled()
      if ((minute * pushes) % minutes === 0 && pushes > 0) await branch.pollNow()
    }
    await branch.stop()
    return state.polled - 1 // without the first poll
  }
  const [led, told] = [await looksWith(true, 0), await looksWith(false, 0)]
  const [few, many] = [await looksWith(true, 6), await looksWith(true, 60)]
  t.comment(`looks an hour: ${led} by who leads, ${told} by who is told; with 6 pushes ${few}, with 60 pushes ${many}`)
  t.strictSame([led, told, many], [12, 3, 60])
  t.ok(few >= 6 && few <= 12 + 6)
})

t.test('a look is told whether somebody waits for it; a push makes one that runs wait less', async (t) => {
  const told: (boolean | string)[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  const poll = async (isNotified: boolean) => {
    told.push(isNotified)
    await promise
    return 'a' as CommitId
  }
  const components = {
    poll,
    hurry: (isNotified: boolean) => told.push(isNotified ? 'hurry' : 'hurry a little'),
    clock: new ManualClock(),
    log: capturedLog().log,
  }
  const branch = new BranchWatch({ ...components, random: () => 0 }, { pollMs: 1000, maxBackoffMs: 60_000 })
  t.teardown(() => branch.stop())
  const head = branch.head(signal)
  const unnotified = branch.pollNow(false)
  t.strictSame(told, [false], 'no push, no hurry')
  branch.hurry()
  t.strictSame(told.splice(1), ['hurry a little'], 'somebody waits')
  const notified = branch.pollNow()
  t.strictSame(told, [false, 'hurry'])
  resolve()
  await Promise.all([head, unnotified, notified])
  await branch.pollNow()
  t.strictSame(told, [false, 'hurry', true, true], 'the one after it is for the push too')
  branch.hurry()
  t.same(told.splice(4), ['hurry a little'], 'what is read behind it')
})

t.test('a period is never shorter than it is said, and at most an eighth longer', async (t) => {
  const { clock, state, components } = watch()
  const branch = new BranchWatch({ ...components, random: () => 0.999 }, { pollMs: 1000, maxBackoffMs: 60_000 })
  t.teardown(() => branch.stop())
  t.teardown(branch.onMove(() => undefined))
  clock.advance(0)
  await settled()
  clock.advance(1124)
  await settled()
  t.equal(state.polled, 1)
  clock.advance(1)
  await settled()
  t.equal(state.polled, 2)
})

t.test('who is told of all moves does not look by itself; what fails it tries again all the same', async (t) => {
  const { clock, state, components } = watch()
  let polls = false
  const options = { pollMs: 1000, maxBackoffMs: 60_000, maxSkipped: Number.POSITIVE_INFINITY }
  const branch = new BranchWatch({ ...components, polls: () => polls }, options)
  t.teardown(() => branch.stop())
  t.teardown(branch.onMove(() => undefined))
  clock.advance(0)
  await settled()
  for (let i = 0; i < 100; i++) {
    clock.advance(1000)
    await settled()
  }
  t.equal(state.polled, 1)
  t.equal(branch.commit, 'a')
  state.answer = new KasError({ code: 'REPOSITORY_FAILED', detail: 'x' })
  await branch.pollNow()
  t.same([state.polled, branch.isFailing, branch.commit], [2, true, undefined])
  state.answer = 'b'
  clock.advance(2000)
  await settled()
  t.same([state.polled, branch.isFailing, branch.commit], [3, false, 'b'])
  polls = true
  clock.advance(1000)
  await settled()
  t.equal(state.polled, 4)
})

t.test('a period that becomes shorter holds at once', async (t) => {
  const { clock, state, components } = watch()
  let pollMs = 300_000
  const branch = new BranchWatch({ ...components, pollMs: () => pollMs }, { pollMs, maxBackoffMs: 60_000 })
  t.teardown(() => branch.stop())
  branch.periodChanged()
  t.equal(clock.pending, 0, 'nobody listens')
  t.teardown(branch.onMove(() => undefined))
  clock.advance(0)
  await settled()
  clock.advance(1000)
  pollMs = 3000
  branch.periodChanged()
  clock.advance(3000)
  await settled()
  t.equal(state.polled, 2)
  pollMs = 300_000
  branch.periodChanged()
  clock.advance(3000)
  await settled()
  t.equal(state.polled, 3, 'a longer one from the next poll on')
})

t.test('repositories that are followed from the same moment on are polled at others', async (t) => {
  const { clock, state, components } = watch()
  const options = { pollMs: 1000, maxBackoffMs: 60_000, isSpread: true }
  const branch = new BranchWatch({ ...components, random: () => 0.75 }, options)
  t.teardown(() => branch.stop())
  t.teardown(branch.onMove(() => undefined))
  const polledAfter = async (ms: number) => {
    clock.advance(ms)
    await settled()
    return state.polled
  }
  t.equal(await polledAfter(0), 1)
  t.same([await polledAfter(249), await polledAfter(1)], [1, 2], 'some part of the first period')
  t.same([await polledAfter(1093), await polledAfter(1)], [2, 3], 'a period from then on')
})
