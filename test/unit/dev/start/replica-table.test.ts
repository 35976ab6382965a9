import t from 'tap'
import { holdersOf, tableOf, viewOf } from '../../../../dev/start/replica-table.ts'

const ports = { agents: 1, ops: 8161, rails: 2, kubernetes: 8164, replicas: 3, gossip: 4 }
const rank = ['kas-1', 'kas-0']

function viewAs(name: string, pid: number | undefined, more: { role?: string; problem?: string } | undefined) {
  if (!more) return viewOf({ name, pid, ports }, undefined)
  const { role, problem } = more
  const entry = { pod: 'p', version: 'v', methods: [], since: 0 }
  const entries = [
    { ...entry, replica: 'kas-9', kind: 'connection' as const, role: 'home' },
    { ...entry, replica: name, kind: 'registration' as const, role: 'home' },
    ...(role ? [{ ...entry, replica: name, kind: 'connection' as const, role }] : []),
  ]
  const row = { version: 1, connections: 1, pods: 1, agents: 1 }
  const member = { name, instance: 'i', state: 'serving', version: 'v', reach: 'self' as const, calls: 0, gossip: true }
  return viewOf(
    { name, pid, ports },
    {
      instance: 'i',
      replica: { name, version: 'v', ...(problem ? { problem } : {}) },
      members: [
        { ...member, instances: 1, row },
        { ...member, instances: 1, row },
      ],
      agents: [{ agentId: '42', holders: [], pods: 1, rank, entries }],
      agentCount: 1,
    },
  )
}

t.test('what each replica says, in columns; the home before the standby', async (t) => {
  const views = [
    viewAs('kas-0', 17, { role: 'standby' }),
    viewAs('kas-1', 18, { role: 'home' }),
    viewAs('kas-2', 19, { problem: 'cluster: not ready yet' }),
    viewAs('kas-3', 20, undefined),
    viewAs('kas-4', undefined, undefined),
  ]
  const [head = '', ...rows] = tableOf(views)
  t.match(rows[0], /^kas-0 +ready +17 +https:\/\/127\.0\.0\.1:8164 +\S+:8161\/metrics +standby +2 +2$/)
  t.match(rows[1], /^kas-1 +ready +18 .* home +1 +2$/)
  t.match(rows[2], /^kas-2 +not ready +19 .* - +- +2$/)
  t.match(rows[3], /^kas-3 +not ready +20 .* - +- +-$/)
  t.match(rows[4], /^kas-4 +gone +- .* - +- +-$/)
  const column = head.indexOf('rank')
  t.same(
    rows.map((row) => row[column]),
    ['2', '1', '-', '-', '-'],
  )
  t.same(holdersOf(views), ['kas-1', 'kas-0'])
})
