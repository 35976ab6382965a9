import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { verdicts } from '../../src/agentk/modules/gitops/state/gitops-metrics.ts'
import { goCodeName } from '../../src/lib/errors.ts'
import { freshMetrics } from '../support/fresh-programs.ts'
import { dashboard, rules } from '../support/monitoring/files.ts'
import { Exposition, selectorsOf } from '../support/monitoring/selectors.ts'
import { Processes } from '../support/processes.ts'

/** Running programs have each metric and each label value that rules and dashboard name. */

t.setTimeout(90_000)

/** Answers one call with 500, and cuts the connection of the next. */
let asked = 0
const gitlab = createServer((_, response) => {
  if (asked++ % 2 === 1) return void response.destroy()
  response.writeHead(500).end()
})
gitlab.listen(0, '127.0.0.1')
await once(gitlab, 'listening')
t.teardown(() => gitlab.close())

const { port } = gitlab.address() as AddressInfo
const fresh = await freshMetrics(await Processes.start(t), { gitlab: `http://127.0.0.1:${port}`, questions: 2 })
const said = new Exposition(Object.values(fresh).join('\n'))

/** set by Prometheus or its scrape configuration */
const foreignLabels = ['job', 'namespace', 'instance', 'pod', 'le']
const foreignMetrics = ['up']
/** No Gitaly is asked here, so its codes come from the list of gRPC. */
const grpcCodes = Array.from({ length: 17 }, (_, code) => goCodeName(code) ?? '')

/** Values by label that no program says here, as nothing has happened: agentk follows no source. */
const listed: Readonly<Record<string, readonly string[]>> = { grpc_code: grpcCodes, verdict: verdicts }

const expressions = [
  ...rules.map(({ alert, expr }) => ({ of: alert, expr })),
  ...dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ of: title, expr }))),
]

t.test('metrics', async (t) => {
  t.ok(expressions.length > 60)
  for (const { of, expr } of expressions) {
    const selectors = selectorsOf(expr)
    t.ok(selectors.length > 0, of)
    for (const { metric } of selectors) t.ok(foreignMetrics.includes(metric) || said.has(metric), `${of}: ${metric}`)
  }
})

t.test('values of labels', async (t) => {
  let compared = 0
  for (const { of, expr } of expressions) {
    for (const { metric, matchers } of selectorsOf(expr)) {
      for (const { label, values } of matchers) {
        if (foreignLabels.includes(label)) continue
        const known = listed[label] ?? said.valuesOf(metric, label)
        for (const value of values) {
          compared++
          const pattern = new RegExp(`^(?:${value})$`)
          t.ok(
            known.some((one) => pattern.test(one)),
            `${of}: ${metric}{${label}="${value}"}, found ${known.join(', ')}`,
          )
        }
      }
    }
  }
  t.ok(compared > 15)
})
