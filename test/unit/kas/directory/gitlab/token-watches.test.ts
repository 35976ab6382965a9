import t, { type Test } from 'tap'
import { TokenWatches } from '../../../../../src/kas/directory/gitlab/token-watches.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { ManualClock, settle } from '../../../../support/manual-clock.ts'

const settled = () => settle(5)

/** Watches one token. The test sets how long answers are kept and whether GitLab refuses the next one. */
function start(t: Test, keptMs: () => number) {
  const clock = new ManualClock()
  const asked: number[] = []
  const state = { failure: undefined as KasError | undefined }
  const ask = async () => {
    asked.push(clock.now())
    if (state.failure) throw state.failure
  }
  const watches = new TokenWatches({ clock, random: () => 0.5, ask, keptMs }, { retryMs: 1000 })
  t.teardown(() => watches.stop())
  const release = watches.watch('token')
  const advance = async (ms: number) => {
    clock.advance(ms)
    await settled()
  }
  return { asked, state, release, advance, clock }
}

t.test('an answer that was at hand until the moment of the question is asked for at once', async (t) => {
  const left = [300, 0, 300, 300]
  const { asked, advance } = start(t, () => left.shift() ?? 300)
  await settled()
  t.equal(asked.length, 0)
  await advance(300)
  t.equal(asked.length, 2, 'not a minute later')
  await advance(300)
  t.equal(asked.length, 3)
})

t.test('where answers are not kept, a minute lies between two questions', async (t) => {
  const { asked, advance } = start(t, () => 0)
  await settled()
  t.equal(asked.length, 2)
  await advance(59_999)
  t.equal(asked.length, 2)
  await advance(1)
  t.equal(asked.length, 3)
})

t.test('a question in vain is asked again; a refusal is the last, and so is the end of the watch', async (t) => {
  const { asked, state, advance, clock } = start(t, () => 300)
  state.failure = new KasError({ code: 'DIRECTORY_UNAVAILABLE' })
  await advance(300)
  await advance(1000)
  t.equal(asked.length, 2)
  state.failure = new KasError({ code: 'UNAUTHENTICATED' })
  await advance(1000)
  await advance(10_000)
  t.equal(asked.length, 3)
  t.equal(clock.pending, 0)

  const left = start(t, () => 300)
  left.release()
  await left.advance(1000)
  t.same([left.asked, left.clock.pending], [[], 0])
})
