import t from 'tap'
import { status } from '../../../../../src/kas/cli/status.ts'
import type { KasModule } from '../../../../../src/kas/module.ts'
import { statusReport } from '../../../../../src/kas/servers/ops-socket/status-report.ts'

const report = (modules: readonly KasModule[]) =>
  statusReport({
    name: 'kas-0',
    version: '1.2.3',
    readiness: { problem: () => undefined },
    tunnels: { agentIds: () => [], counts: () => ({ idle: 0, waiting: 0, living: 0 }) },
    peering: undefined,
    modules,
  })

t.test('lines of modules are shown under their names', async (t) => {
  let pushes = 0
  const modules: KasModule[] = [
    { name: 'silent' },
    {
      name: 'echo',
      status: () => [
        ['pushes', pushes],
        ['last said', 'a \u001b[2J word'],
      ],
    },
    { name: 'idle', status: () => [] },
  ]
  pushes = 17
  const reported = report(modules)
  t.strictSame(reported.modules, {
    echo: [
      ['pushes', 17],
      ['last said', 'a \u001b[2J word'],
    ],
  })
  t.match(status.print(JSON.parse(JSON.stringify(reported))), /\n\necho\npushes {5}17\nlast said {2}a \?\[2J word\n$/)
})

t.test('without any, the report has no modules', async (t) => {
  for (const modules of [[], [{ name: 'silent' }, { name: 'idle', status: () => [] }]]) {
    t.notOk('modules' in report(modules))
    t.match(status.print(report(modules)), /no agent is connected\n$/)
  }
})
