import { delay } from '../../../src/lib/signals.ts'
import { viewsBounds } from '../../../src/proto/views-json.ts'
import { type Attack, over } from '../attack.ts'
import { EvilView, Mallory } from '../mallory.ts'

interface Size {
  readonly budgets: number
  readonly pods: number
  /** how long she looks. ms */
  readonly lookMs: number
}

const label = 'attack=budget-selectors'
const labels = { attack: 'budget-selectors' }
const budgetsOf = 'apis/policy/v1 poddisruptionbudgets'
const podsOf = 'api/v1 pods'
/** as many as a selector that is kept may have */
const expressions = 64
/** more than one page is open, so the root takes less than its own bound */
const rootLimit = 500
const touchMs = 100

const budget = (i: number) => ({
  metadata: { name: `budget-${i}`, labels },
  spec: {
    minAvailable: 1,
    selector: {
      matchExpressions: Array.from({ length: expressions }, (_, n) => ({ key: `k${n}`, operator: 'DoesNotExist' })),
    },
  },
})

/** Nobody schedules it. */
const pod = (i: number) => ({
  metadata: { name: `pod-${i}`, labels },
  spec: { schedulingGates: [{ name: 'example.com/never' }], containers: [{ name: 'main', image: 'none' }] },
})

export const budgetSelectors: Attack<Size> = {
  name: 'budget-selectors',
  what: 'budgets that select all Pods of a namespace, each open in one view',
  cluster: true,
  cheap: { budgets: 40, pods: 100, lookMs: 2000 },
  full: { budgets: 200, pods: 1500, lookMs: 20_000 },
  async play(stage, { budgets, pods, lookMs }, signal) {
    const mallory = new Mallory(stage, signal)
    const ends: (() => void)[] = [() => mallory.close()]
    const end = async () => {
      await mallory.remove(budgetsOf, label)
      await mallory.remove(podsOf, label)
      for (const close of ends) close()
    }
    try {
      await mallory.create(
        podsOf,
        Array.from({ length: pods }, (_, i) => pod(i)),
      )
      const made = await mallory.create<{ metadata: { uid: string } }>(
        budgetsOf,
        Array.from({ length: budgets }, (_, i) => budget(i)),
      )
      const view = await EvilView.open(stage, { limit: rootLimit }, signal)
      ends.push(() => view.close())
      const open = made.slice(0, viewsBounds.maxPages - 1)
      for (const { metadata } of open) view.page(metadata.uid, 1)
      const until = performance.now() + lookMs
      for (let i = 0; performance.now() < until; i++) {
        await mallory.patch(podsOf, {
          name: `pod-${i % pods}`,
          body: { metadata: { annotations: { touched: `${i}` } } },
        })
        await delay(touchMs, signal)
      }
      return { ...over(''), end }
    } catch (error) {
      await end()
      throw error
    }
  },
}
