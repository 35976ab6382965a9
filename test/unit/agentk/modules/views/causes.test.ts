import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { kindOf } from '../../../../../src/kubernetes/object.ts'
import { ClusterStage, judgedOf, rulesOf } from '../../../../support/views/situation-view.ts'
import { user } from '../../../../support/views/view-stage.ts'
import { differ, nameOf, type Situation, shuffled } from '../../../../vectors/situations.ts'

/** number of random orders in which objects and events arrive */
const orders = 3

for (const name of ['causes', 'causes-kubelet', 'causes-reports']) {
  const file = join(process.env.KAS_VECTORS ?? '', `${name}.json`)
  const skip = existsSync(file) ? false : 'needs KAS_VECTORS'
  t.test(`${name}: the rows of a view say it, in whatever order it comes`, { skip, timeout: 120_000 }, async (t) => {
    const situations = JSON.parse(readFileSync(file, 'utf8')) as Situation[]
    const differences = new Set<string>()
    for (const situation of situations) {
      const rules = await rulesOf([...new Set(situation.objects.map(kindOf))])
      for (let seed = 0; seed < orders; seed++) {
        const stage = new ClusterStage(Date.parse(situation.now), rules)
        if (seed === 2) for (const event of shuffled(situation.events, seed)) stage.event(event)
        for (const object of shuffled(situation.objects, seed)) stage.put(object)
        if (seed !== 2) for (const event of shuffled(situation.events, seed)) stage.event(event)
        stage.listed()
        await stage.pass()
        for (const [i, expectation] of situation.expect.entries()) {
          const { root, mayNotList = [] } = expectation
          stage.mayNotList(`user-${i}`, mayNotList)
          const { client } = stage.open(user(`user-${i}`), { view: 'list', filter: { kinds: [root.kind] }, limit: 500 })
          await stage.pass(100)
          const row = [...client.rows.values()].find(({ ns = '', n }) => ns === root.namespace && n === root.name)
          for (const one of differ(expectation, judgedOf(row))) {
            differences.add(`${situation.name}: ${nameOf(expectation)}: ${one}`)
          }
        }
        stage.close()
      }
    }
    t.same([...differences], [])
  })
}
