import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { status } from '../../../../../src/kas/cli/status.ts'
import type { KasModule } from '../../../../../src/kas/module.ts'
import { statusReport } from '../../../../../src/kas/servers/ops-socket/status-report.ts'
import type { RefusedCaller } from '../../../../../src/kas/tunnels/refused-callers.ts'

const report = (modules: readonly KasModule[], refused: readonly RefusedCaller[] = []) =>
  statusReport({
    instance: 'i',
    name: 'kas-0',
    version: '1.2.3',
    readiness: { problem: () => undefined },
    tunnels: { agentIds: () => [], counts: () => ({ idle: 0, waiting: 0, living: 0 }) },
    refusedCallers: { recent: () => refused },
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
  t.match(
    status.data(JSON.parse(JSON.stringify(reported))).table(false),
    /\n\necho\npushes {5}17\nlast said {2}a \?\[2J word\n$/,
  )
})

t.test('without any, the report has no modules', async (t) => {
  for (const modules of [[], [{ name: 'silent' }, { name: 'idle', status: () => [] }]]) {
    t.notOk('modules' in report(modules))
    t.match(status.data(report(modules)).table(false), /no agent is connected\n$/)
  }
})

t.test('callers who were refused for how much they hold are named', async (t) => {
  const last = {
    code: 'CALLER_OVER_SHARE',
    agentId: '42',
    held: 480,
    living: 520,
    watches: 470,
    retryAfterS: 9,
  } as const
  const lastAt = Date.parse('2026-06-01T00:00:00Z')
  const refused = [{ name: 'user 7', agentId: 42n as AgentId, last, lastAt, count: 3 }]
  t.match(status.data(report([], refused)).table(false), /\nuser 7 +42 +480 of 520 +470 +3 +2026-06-01T00:00:00.000Z\n/)
  t.notMatch(status.data(report([])).table(false), /OVER/)
})
