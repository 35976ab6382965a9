import t from 'tap'
import { JudgeTurns } from '../../../../../../src/agentk/modules/gitops/health/judge-turns.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const greedy = {}
const other = {}

t.test('sources take turns, and leave most of the thread to others', async (t) => {
  const clock = new ManualClock()
  const turns = new JudgeTurns({ clock, pace: clock, log: capturedLog().log })
  const judged: string[] = []
  const judge = (name: string, tookMs: number) => () => {
    judged.push(name)
    clock.advance(tookMs)
    if (name === 'greedy') turns.add(greedy, judge(name, tookMs))
  }
  turns.add(greedy, judge('greedy', 50))
  clock.advance(0)
  turns.add(other, judge('other', 1))
  clock.advance(1000)
  t.strictSame(judged.slice(0, 3), ['greedy', 'greedy', 'other'])
  clock.advance(10_000)
  t.ok(judged.length < 35, `${judged.length} judgements in 10 s`)
})

t.test('what is taken back is not judged', async (t) => {
  const clock = new ManualClock()
  const turns = new JudgeTurns({ clock, pace: clock, log: capturedLog().log })
  let calls = 0
  const judge = () => void calls++
  const takeBack = turns.add(greedy, judge)
  turns.add(greedy, judge)
  takeBack()
  clock.advance(1000)
  t.equal(calls, 0)
  turns.add(greedy, judge)
  clock.advance(0)
  t.equal(calls, 1)
})

t.test('one namespace that is judged again and again rests, too', async (t) => {
  const clock = new ManualClock()
  const turns = new JudgeTurns({ clock, pace: clock, log: capturedLog().log })
  const began: number[] = []
  const judge = () => {
    began.push(clock.now())
    clock.advance(40)
  }
  for (let i = 0; i < 50; i++) {
    turns.add(greedy, judge)
    clock.advance(20)
  }
  for (const [i, at] of began.entries()) if (i > 0) t.ok(at - (began[i - 1] as number) >= 320)
  t.ok(began.length >= 3)
})
