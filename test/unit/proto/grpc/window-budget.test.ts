import t from 'tap'
import { WindowBudget } from '../../../../src/proto/grpc/window-budget.ts'

t.test('connections have equal parts, as far as others have left them', async (t) => {
  const budget = new WindowBudget(100)
  const [first, second, third] = [{}, {}, {}]
  t.equal(budget.shareOf(first), 100)
  budget.claim(first, 80)
  t.equal(budget.shareOf(first), 100, 'its own claim is not against it')
  t.equal(budget.shareOf(second), 20, 'not the half: the first has it still')
  budget.claim(second, 20)
  t.equal(budget.shareOf(first), 50)
  budget.claim(first, 50)
  t.equal(budget.shareOf(second), 50)
  t.equal(budget.shareOf(third), 30)
  budget.claim(first, 0)
  budget.claim(second, 0)
  t.equal(budget.shareOf(third), 100)
})

t.test('what waits is not granted again', async (t) => {
  const budget = new WindowBudget(100)
  budget.hold(70)
  t.equal(budget.shareOf({}), 30)
  budget.hold(40)
  t.equal(budget.shareOf({}), 0, 'never less than nothing')
  budget.hold(-110)
  t.equal(budget.shareOf({}), 100)
})

t.test('owners share what is above them', async (t) => {
  const all = new WindowBudget(100)
  const [one, other] = [new WindowBudget(80, all), new WindowBudget(80, all)]
  one.claim({}, 80)
  t.equal(other.shareOf({}), 20)
  one.hold(15)
  t.equal(other.shareOf({}), 5)
})
