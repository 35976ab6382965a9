import t from 'tap'
import { SpacedLooks } from '../../../../../src/kas/modules/repositories/spaced-looks.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

t.test('one look a second and project: the first at once, a thousand meanwhile as one', (t) => {
  const clock = new ManualClock()
  const looked: bigint[] = []
  const looks = new SpacedLooks({ clock, look: (projectId) => looked.push(projectId) })
  looks.ask(1n)
  t.strictSame(looked, [1n])
  for (let i = 0; i < 1000; i++) looks.ask(1n)
  looks.ask(2n)
  t.strictSame(looked.splice(0), [1n, 2n], 'another project waits for nobody')
  clock.advance(999)
  t.strictSame(looked, [])
  clock.advance(1)
  t.strictSame(looked.splice(0), [1n])
  looks.ask(1n)
  t.strictSame(looked, [], 'a second after that one too')
  clock.advance(1000)
  t.strictSame(looked.splice(0), [1n])
  clock.advance(1000)
  t.equal(clock.pending, 0, 'nothing is kept of a project that rests')
  looks.ask(3n)
  looks.stop()
  t.equal(clock.pending, 0)
  t.end()
})
