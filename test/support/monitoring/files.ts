import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'

/** Files of deploy/monitoring. */

const folder = join(import.meta.dirname, '../../../deploy/monitoring')

export const rulesFile = join(folder, 'rules.yaml')

export interface Rule {
  readonly alert: string
  readonly expr: string
  readonly for: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

export interface Panel {
  readonly id: number
  readonly title: string
  readonly type: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets?: readonly { readonly expr: string; readonly legendFormat?: string }[]
}

export const rules = (parse(readFileSync(rulesFile, 'utf8')).groups as { rules: Rule[] }[]).flatMap(
  (group) => group.rules,
)

export const dashboard = JSON.parse(readFileSync(join(folder, 'dashboard.json'), 'utf8')) as {
  readonly uid: string
  readonly panels: readonly Panel[]
}
