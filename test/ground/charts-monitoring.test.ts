import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { expectations } from '../../dev/charts/expected.ts'
import { chartsFolder } from '../../dev/charts/helm.ts'
import { monitoringFiles } from '../../dev/charts/monitoring.ts'
import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import { rendered, skip } from '../support/charts/chart-words.ts'
import { findObject, objectsOf } from '../support/manifests.ts'
import { dashboard, rules, rulesFile } from '../support/monitoring/files.ts'

/** Rules and dashboard of the chart kas equal those of deploy/monitoring. */

const values = [join(import.meta.dirname, '../support/charts/kas/least.yaml')]
const on = ['metrics.prometheusRule.enabled=true', 'metrics.dashboard.enabled=true']

async function renderedWith(...set: string[]): Promise<KubernetesObject[]> {
  const text = await rendered({ chart: 'kas', values, set: [...on, ...set], apis: ['monitoring.coreos.com/v1'] })
  return objectsOf(text, 'rendered')
}
const alertsOf = (objects: readonly KubernetesObject[], name = 'kas'): string[] =>
  findObject(objects, 'PrometheusRule', name).spec.groups.flatMap(({ rules }: { rules: { alert: string }[] }) =>
    rules.map(({ alert }) => alert),
  )

t.test('the chart has what `npm run manifests` copies', async (t) => {
  for (const [file, text] of monitoringFiles())
    t.equal(readFileSync(join(chartsFolder, 'kas', file), 'utf8'), text, `${file}: npm run manifests`)
})

t.test('each alert, and the dashboard for its sidecar', { skip }, async (t) => {
  const objects = await renderedWith('metrics.dashboard.annotations.grafana_folder=kas', 'additionalLabels.team=a')
  t.strictSame(findObject(objects, 'PrometheusRule', 'kas').spec, parse(readFileSync(rulesFile, 'utf8')))
  const { metadata, data } = findObject(objects, 'ConfigMap', 'kas-dashboard')
  t.match(metadata, { labels: { grafana_dashboard: '1', team: 'a' }, annotations: { grafana_folder: 'kas' } })
  t.strictSame(JSON.parse(data['kas.json']), dashboard)
})

t.test(
  'alerts that have no meaning here are left out by name, with their group if it is empty',
  { skip },
  async (t) => {
    const left = rules.map(({ alert }) => alert).filter((alert) => /^Agentk|TooFew$/.test(alert))
    const set = left.map((alert, i) => `metrics.prometheusRule.without[${i}]=${alert}`)
    const objects = await renderedWith(...set, 'fullnameOverride=relay')
    t.strictSame(
      alertsOf(objects, 'relay'),
      rules.map(({ alert }) => alert).filter((alert) => !left.includes(alert)),
    )
    t.equal(findObject(objects, 'PrometheusRule', 'relay').spec.groups.length, 1)
  },
)

t.test('what an operator of Prometheus reads is under the job that rules name, whatever it is called', async (t) => {
  const jobs = expectations().flatMap(({ chart, rendered }) => {
    const monitors = objectsOf(readFileSync(rendered, 'utf8'), rendered).filter(({ kind }) => /Monitor$/.test(kind))
    return monitors.map(({ kind, spec }) => {
      const [{ port, relabelings }] = spec.endpoints ?? spec.podMetricsEndpoints
      t.equal(port, 'ops')
      return [kind, chart, relabelings.find(({ targetLabel }: { targetLabel?: string }) => targetLabel === 'job')]
    })
  })
  const job = (name: string) => ({ targetLabel: 'job', replacement: name })
  t.strictSame(jobs, [
    ['ServiceMonitor', 'kas', job('kas')],
    ['PodMonitor', 'kas', job('kas')],
    ['ServiceMonitor', 'agentk', job('agentk')],
  ])
})

t.test('nothing of it is there unless it is asked for', async (t) => {
  for (const { rendered } of expectations().filter(({ values }) => /least/.test(values))) {
    const kinds = objectsOf(readFileSync(rendered, 'utf8'), rendered).map(
      ({ kind, metadata }) => `${kind} ${metadata.name}`,
    )
    t.notMatch(kinds.join(), /Monitor|PrometheusRule|dashboard|Route|CustomResourceDefinition|flux|views|gitops/)
  }
})
