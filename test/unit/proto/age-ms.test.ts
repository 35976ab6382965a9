import t from 'tap'
import { ageMs } from '../../../src/proto/age-ms.ts'

t.test('an age is a uint32, whatever clocks say', async (t) => {
  t.equal(ageMs(1000, 2500.4), 1500)
  t.equal(ageMs(2000, 1000), 0)
  t.equal(ageMs(0, 2 ** 40), 2 ** 32 - 1)
})
