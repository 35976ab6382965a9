import { delay } from '../../../src/lib/signals.ts'
import { viewsBounds } from '../../../src/proto/views-json.ts'
import type { Attack } from '../attack.ts'
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
/** of all of it there may be 8,192 characters; and so a selection counts as two: one user may have 200 such */
const values = 14
/** The budgets alone, so that each has a row: their links are shown where they are open. */
const kind = 'policy/PodDisruptionBudget'
const query = { filter: { kinds: [kind] }, limit: viewsBounds.maxLimit }
/** more than 50 of a kind are one row, whose page they are */
const bundle = `b::${kind}`
const touchMs = 100

/** Asked for what no Pod has: short words, so that they take time and little room. */
const costly = Array.from({ length: expressions - 1 }, (_, n) => ({
  key: 'attack',
  operator: 'NotIn',
  values: Array.from({ length: values }, (_, m) => `${n}-${m}`),
}))

/** Selects all Pods, and no other does it with the same words. */
const budget = (i: number) => ({
  metadata: { name: `budget-${i}`, labels },
  spec: {
    minAvailable: 1,
    selector: { matchExpressions: [...costly, { key: 'attack', operator: 'NotIn', values: [`b${i}`] }] },
  },
})

/** Nobody schedules it. */
const pod = (i: number) => ({
  metadata: { name: `pod-${i}`, labels },
  spec: { schedulingGates: [{ name: 'example.com/never' }], containers: [{ name: 'main', image: 'none' }] },
})

export const budgetSelectors: Attack<Size, number> = {
  name: 'budget-selectors',
  what: 'budgets that select all Pods of a namespace, each open in one view',
  cluster: true,
  cheap: { budgets: 60, pods: 60, lookMs: 2000 },
  full: { budgets: 200, pods: 1500, lookMs: 20_000 },
  async prepare(stage, { budgets, pods }, signal) {
    const mallory = new Mallory(stage, signal)
    await mallory.create(
      podsOf,
      Array.from({ length: pods }, (_, i) => pod(i)),
    )
    await mallory.create(
      budgetsOf,
      Array.from({ length: budgets }, (_, i) => budget(i)),
    )
    const clean = async () => {
      for (const resource of [budgetsOf, podsOf]) await mallory.remove(resource, label)
      mallory.close()
    }
    return { made: budgets, clean }
  },
  async play(stage, { lookMs }, signal, budgets) {
    const mallory = new Mallory(stage, signal)
    const view = await EvilView.open(stage, query, signal)
    const end = async () => {
      view.close()
      mallory.close()
    }
    try {
      await view.shown((rows) => rows.has(bundle), signal)
      view.page(bundle, viewsBounds.maxLimit)
      await view.shown((rows) => rows.size > budgets, signal)
      const ids = [...view.rows].filter((id) => id !== bundle)
      for (const id of ids.slice(0, viewsBounds.maxPages - 2)) view.page(id, 1)
      const until = performance.now() + lookMs
      for (let i = 0; performance.now() < until; i++) {
        const body = { metadata: { annotations: { touched: `${i}` } } }
        await mallory.patch(budgetsOf, { name: `budget-${i % budgets}`, body })
        await delay(touchMs, signal)
      }
    } catch (error) {
      await end()
      throw error
    }
    return { refusal: view.error, end }
  },
}
