import t from 'tap'
import { holdersOf, type ReplicaView, tableOf } from '../../../../dev/start/replica-table.ts'

const ports = { agents: 1, ops: 8161, rails: 2, kubernetes: 8164, replicas: 3, gossip: 4 }
const view = (name: string, more: Partial<ReplicaView> = {}): ReplicaView => ({
  name,
  pid: 17,
  ports,
  ready: true,
  agents: 0,
  members: 2,
  ...more,
})

t.test('a replica that is ready has a rank; the holder is told; the columns stand below one another', async (t) => {
  const views = [
    view('kas-0', { agents: 1 }),
    view('kas-1'),
    view('kas-2', { ready: false, members: 0 }),
    view('kas-3', { pid: undefined, ready: false, members: 0 }),
  ]
  const [head = '', ...rows] = tableOf(views)
  t.match(rows[0], /^kas-0 +ready +17 +https:\/\/127\.0\.0\.1:8164 +\S+:8161\/metrics +holder +[12] +2$/)
  t.match(rows[1], /^kas-1 +ready .* - +[12] +2$/)
  t.match(rows[2], /^kas-2 +not ready +17 .* - +- +-$/)
  t.match(rows[3], /^kas-3 +gone +- .* - +- +-$/)
  const rank = head.indexOf('rank')
  t.same(rows.map((row) => row[rank]).toSorted(), ['-', '-', '1', '2'])
  t.same(holdersOf(views), ['kas-0'])
})
