import t, { type Test } from 'tap'
import '../../../../../../src/agentk/modules/views/view/graph-selection.ts' // otherwise loaded with the first graph
import type { Row } from '../../../../../../src/proto/views-json.ts'
import { GraphOfUpdates } from '../../../../../support/graph/graph-of-updates.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { NaiveViews } from '../../../../../support/views/naive-views.ts'
import type { ViewClient } from '../../../../../support/views/view-client.ts'
import { makeWorld, type Outcome, runWorld, type World } from '../../../../../support/views/view-world.ts'

const worlds = 200

t.test('what a caller may not list makes no difference to what is sent', { timeout: 300_000 }, async (t) => {
  const first = Number(process.env.KAS_SEED ?? 1)
  let updates = 0
  let hiddenWorlds = 0
  let causes = 0
  let arcs = 0
  for (let seed = first; seed < first + worlds; seed++) {
    const world = makeWorld(new Seeded(seed))
    const [with_, without] = [await runWorld(world, true), await runWorld(world, false)]
    for (const [view, client] of with_.clients.entries()) {
      const { texts } = without.clients[view] as Outcome['clients'][number]
      updates += texts.length
      if (world.queries[view]?.view === 'graph') arcs += texts.join().split('"or"').length
      for (const { z } of client.rows.values()) if (z) causes++
      if (JSON.stringify(client.texts) === JSON.stringify(texts)) continue
      const at = client.texts.findIndex((text, i) => text !== texts[i])
      t.fail(`KAS_SEED=${seed}, view ${view} ${JSON.stringify(world.queries[view])}, update ${at + 1}`, {
        with: client.texts[at]?.slice(0, 2000),
        without: texts[at]?.slice(0, 2000),
      })
      return
    }
    if (!checkPages(t, seed, world, with_)) return
    if (world.phases.some((rights) => rights[0]?.[0] !== '*/*')) hiddenWorlds++
  }
  t.comment(
    `${updates} updates in ${worlds} worlds, in ${hiddenWorlds} of which something is hidden, ${causes} causes, ${arcs} arcs`,
  )
  t.ok(updates > worlds * 10)
  t.ok(causes > worlds)
  t.ok(arcs > worlds)
  t.ok(hiddenWorlds > worlds / 2)
})

/** Checks that each view ends with the state that a new view has. */
function checkPages(t: Test, seed: number, world: World, outcome: Outcome): boolean {
  const { clients, records, pages } = outcome
  for (const [view, client] of clients.entries()) {
    const query = world.queries[view] as World['queries'][number]
    if (query.view === 'events') continue
    if (query.view === 'graph') {
      if (!checkGraph(t, `KAS_SEED=${seed} ${JSON.stringify(query)}`, [client, outcome.fresh[view] as typeof client]))
        return false
      continue
    }
    const naive = new NaiveViews(records, query, { ...outcome, verdict: world.verdict })
    const where = `KAS_SEED=${seed}, view ${view} ${JSON.stringify(query)}`
    const limits = pages[view] as ReadonlyMap<string, number>
    for (const [id, { order, counts, more }] of client.pages) {
      const expected = naive.page(id, limits.get(id) ?? 0)
      if (!t.strictSame({ order, counts, more }, expected, `${where}, page ${id}`)) return false
      for (const row of order) {
        const { p, c, w } = client.rows.get(row) ?? {}
        const found = { ...(p ? { p } : {}), ...(c ? { c } : {}), ...(w ? { w } : {}) }
        if (!t.strictSame(found, naive.around(row), `${where}, row ${row}`)) return false
      }
    }
    for (const id of client.order() ?? []) {
      const [row, anew] = [client.rows.get(id), outcome.fresh[view]?.rows.get(id)]
      const said = ({ h, why, z }: Partial<Row> = {}) => ({ h, why, z })
      // the new view may have asked for another number of rows
      if (anew && !t.strictSame(said(row), said(anew), `${where}, what is said of ${id}`)) return false
    }
    const shown = new Set([...client.pages.values()].flatMap(({ order }) => order))
    // objects linked with an object that the view asks for have rows on no page
    const linked = new Set([...client.rows.values()].flatMap(({ l = [] }) => l.map(([, id]) => id)))
    const isBeside = (id: string) => query.view === 'object' && linked.has(id) && !shown.has(id)
    const rows = [...client.rows.keys()].filter((id) => !isBeside(id))
    if (!t.strictSame(rows.sort(), [...shown].sort(), `${where}, rows`)) return false
  }
  return true
}

/** Checks that a strict client still runs and has the graph of a client that comes at the end. */
function checkGraph(t: Test, where: string, clients: readonly ViewClient[]): boolean {
  const [drawn, anew] = clients.map(({ texts }) => {
    const { vertices, arcs } = new GraphOfUpdates().take(texts)
    return { vertices: [...vertices].sort(), arcs: [...arcs].sort() }
  })
  return t.strictSame(drawn, anew, where)
}
