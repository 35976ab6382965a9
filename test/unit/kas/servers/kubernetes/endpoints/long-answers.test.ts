import t from 'tap'
import { LongAnswers } from '../../../../../../src/kas/servers/kubernetes/endpoints/long-answers.ts'

const never = new AbortController().signal

/**
 * Asks as these callers about an agent of a tenant, in this order. @returns callers in the order in which they are
 * served
 */
async function served(asked: readonly (readonly [tenant: string, caller: string])[]): Promise<string[]> {
  const answers = new LongAnswers()
  const begun: string[] = []
  const ends: (() => void)[] = []
  const all = asked.map(([tenant, caller]) =>
    answers.make(tenant, caller, never, () => {
      begun.push(`${tenant} ${caller}`)
      return new Promise<void>((resolve) => void ends.push(resolve))
    }),
  )
  for (let i = 0; i < asked.length; i++) {
    while (begun.length <= i) await Promise.resolve()
    ends[i]?.()
  }
  await Promise.all(all)
  return begun
}

t.test('tenants take turns, however many callers ask about agents of one', async (t) => {
  const crowd = Array.from({ length: 20 }, (_, i) => ['evil', `user ${i}`] as const)
  const order = await served([...crowd, ['good', 'ada']])
  t.ok(order.indexOf('good ada') <= 5, `ada's is number ${order.indexOf('good ada') + 1}`)
})

t.test('a caller has a part of the turns, however many tenants it asks about', async (t) => {
  const greedy = Array.from({ length: 20 }, (_, i) => [`tenant ${i}`, 'job'] as const)
  const order = await served([...greedy, ['good', 'ada']])
  t.equal(order.indexOf('good ada'), 2, 'two of the others run, and ada’s beside them')
})
