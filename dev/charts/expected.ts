import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type ChartName, render } from './helm.ts'

/** Output of the charts that tests expect, in files: a review of a chart's change shows the changed objects. */

const folder = join(import.meta.dirname, '../../test/support/charts')

export interface Expectation {
  readonly chart: ChartName
  /** file of values, and file of the chart's output for them */
  readonly values: string
  readonly rendered: string
}

/** Returns each `NAME.yaml`, with its `NAME.rendered.yaml`, which may not exist yet. */
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
