import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type ChartName, render } from './helm.ts'

/** What tests expect of the charts, written down: a change of a chart shows in review as the objects that change. */

const folder = join(import.meta.dirname, '../../test/support/charts')

export interface Expectation {
  readonly chart: ChartName
  /** files with values, and what the chart makes of these */
  readonly values: string
  readonly rendered: string
}

/** Each `NAME.yaml` beside which there is, or will be, a `NAME.rendered.yaml`. */
export function expectations(): Expectation[] {
  const charts: ChartName[] = ['kas', 'agentk']
  return charts.flatMap((chart) => {
    const names = readdirSync(join(folder, chart)).filter((name) => !name.endsWith('.rendered.yaml'))
    return names.sort().map((name) => {
      const values = join(folder, chart, name)
      return { chart, values, rendered: values.replace(/yaml$/, 'rendered.yaml') }
    })
  })
}

export function renderExpected(helm: string, { chart, values }: Expectation): Promise<string> {
  const apis = ['monitoring.coreos.com/v1', 'gateway.networking.k8s.io/v1']
  return render(helm, { chart, values: [values], apis })
}
