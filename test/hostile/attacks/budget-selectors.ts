import { delay } from '../../../src/lib/signals.ts'
import { viewsBounds } from '../../../src/proto/views-json.ts'
import type { Attack } from '../attack.ts'
import { EvilView, Mallory } from '../mallory.ts'

interface Size {
  readonly budgets: number
  readonly pods: number
  /** time for which the view stays open. ms */
  readonly lookMs: number
}

const label = 'attack=budget-selectors'
const labels = { attack: 'budget-selectors' }
const budgetsOf = 'apis/policy/v1 poddisruptionbudgets'
const podsOf = 'api/v1 pods'
/** the most expressions of a selector that kas keeps */
const expressions = 64
/**
 * values of each expression, within the limit of 8,192 characters; a selection of this size counts as two, so one user
 * may have 200
 */
const values = 14
/** Only the budgets, so that each has a row: the links of an open row are shown. */
const kind = 'policy/PodDisruptionBudget'
const query = { filter: { kinds: [kind] }, limit: viewsBounds.maxLimit }
/** more than 50 objects of a kind are one row; its page has them */
const bundle = `b::${kind}`
const touchMs = 100

/** Expressions with values that no Pod has, so that all are checked: short words take time and little memory. */
const costly = Array.from({ length: expressions - 1 }, (_, n) => ({
  key: 'attack',
  operator: 'NotIn',
  values: Array.from({ length: values }, (_, m) => `${n}-${m}`),
}))

/** Selects all Pods, with an expression that no other budget has. */
const budget = (i: number) => ({
  metadata: { name: `budget-${i}`, labels },
  spec: {
    minAvailable: 1,
    selector: { matchExpressions: [...costly, { key: 'attack', operator: 'NotIn', values: [`b${i}`] }] },
  },
})

/** A Pod that the scheduler leaves alone. */
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
