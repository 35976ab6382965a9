import t from 'tap'
import { ClientGraph } from '../../../../../../src/kas/modules/views/graph/client-graph.ts'
import { readGraphUpdate } from '../../../../../../src/kas/modules/views/graph/graph-message.ts'
import { ByteBudget } from '../../../../../../src/lib/byte-budget.ts'

const maxBytes = 100_000

function start() {
  const budget = new ByteBudget(maxBytes)
  const graph = new ClientGraph(budget)
  const apply = (update: object) => [...graph.apply(readGraphUpdate(Buffer.from(JSON.stringify(update))))]
  return { budget, graph, apply }
}

const vertex = (id: number) => [id, '', 'v1', 'pods', 'shop', `pod-${id}`]
const early = { code: 'INVALID_MESSAGE', message: /a vertex before its arcs/ }

t.test('a vertex leaves once its last arc has left, at either end of it', (t) => {
  const { apply } = start()
  apply({
    seq: 1,
    svx: [0, 1, 2, 3].map(vertex),
    sarc: [
      [0, 1, 'or'],
      [1, 0, 'r'],
      [2, 2, 'or'],
    ],
  })
  for (const id of [0, 1, 2]) t.throws(() => apply({ seq: 2, dvx: [id] }), early)
  apply({ seq: 2, dvx: [3] })
  apply({ seq: 3, darc: [[0, 1, 'or']] })
  for (const id of [0, 1]) t.throws(() => apply({ seq: 4, dvx: [id] }), early)
  apply({
    seq: 4,
    darc: [
      [1, 0, 'r'],
      [2, 2, 'or'],
    ],
    dvx: [0, 1, 2],
  })
  apply({ seq: 5, svx: [vertex(0)] })
  t.match(apply({ seq: 6, dvx: [0] }), [/"dvx"/])
  t.end()
})

t.test('a graph that begins anew counts its own arcs, and an ended one keeps nothing', (t) => {
  const { apply, budget, graph } = start()
  apply({ seq: 1, svx: [vertex(0), vertex(1)], sarc: [[0, 1, 'or']] })
  apply({ seq: 1, svx: [vertex(0), vertex(1)] })
  apply({ seq: 2, sarc: [[1, 0, 'or']] })
  t.throws(() => apply({ seq: 3, dvx: [0] }), early)
  apply({ seq: 3, darc: [[1, 0, 'or']], dvx: [0] })
  graph.end()
  budget.take(maxBytes)
  t.end()
})
