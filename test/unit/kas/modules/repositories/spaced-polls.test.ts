import t from 'tap'
import { SpacedPolls } from '../../../../../src/kas/modules/repositories/spaced-polls.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

t.test('one look a second and project: the first at once, a thousand meanwhile as one', (t) => {
  const clock = new ManualClock()
  const polled: bigint[] = []
  const polls = new SpacedPolls({ clock, poll: (projectId) => polled.push(projectId) })
  polls.ask(1n)
  t.strictSame(polled, [1n])
  for (let i = 0; i < 1000; i++) polls.ask(1n)
  polls.ask(2n)
  t.strictSame(polled.splice(0), [1n, 2n], 'another project waits for nobody')
  clock.advance(999)
  t.strictSame(polled, [])
  clock.advance(1)
  t.strictSame(polled.splice(0), [1n])
  polls.ask(1n)
  t.strictSame(polled, [], 'a second after that one too')
  clock.advance(1000)
  t.strictSame(polled.splice(0), [1n])
  clock.advance(1000)
  t.equal(clock.pending, 0, 'nothing is kept of a project that rests')
  polls.ask(3n)
  polls.stop()
  t.equal(clock.pending, 0)
  t.end()
})
