import t, { type Test } from 'tap'
import type { Row } from '../../../../../../src/proto/views-json.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { NaiveViews } from '../../../../../support/views/naive-views.ts'
import { makeWorld, type Outcome, runWorld, type World } from '../../../../../support/views/view-world.ts'

const worlds = 200

t.test('what a caller may not list makes no difference to what is sent', { timeout: 300_000 }, async (t) => {
  const first = Number(process.env.KAS_SEED ?? 1)
  let updates = 0
  let hiddenWorlds = 0
  let causes = 0
  for (let seed = first; seed < first + worlds; seed++) {
    const world = makeWorld(new Seeded(seed))
    const [with_, without] = [await runWorld(world, true), await runWorld(world, false)]
    for (const [view, client] of with_.clients.entries()) {
      const { texts } = without.clients[view] as Outcome['clients'][number]
      updates += texts.length
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
  t.comment(`${updates} updates in ${worlds} worlds, in ${hiddenWorlds} of which something is hidden, ${causes} causes`)
  t.ok(updates > worlds * 10)
  t.ok(causes > worlds)
  t.ok(hiddenWorlds > worlds / 2)
})

/** At the end, each view shows what one that is worked out anew would. */
function checkPages(t: Test, seed: number, world: World, outcome: Outcome): boolean {
  const { clients, records, pages } = outcome
  for (const [view, client] of clients.entries()) {
    const query = world.queries[view] as World['queries'][number]
    if (query.view === 'events') continue
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
      const said = ({ h, why, v, y, z }: Partial<Row> = {}) => ({ h, why, v, y, z })
      // another number of rows may have been asked for
      if (anew && !t.strictSame(said(row), said(anew), `${where}, what is said of ${id}`)) return false
    }
    const shown = new Set([...client.pages.values()].flatMap(({ order }) => order))
    if (!t.strictSame([...client.rows.keys()].sort(), [...shown].sort(), `${where}, rows`)) return false
  }
  return true
}
