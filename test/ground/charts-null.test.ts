import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { expectations } from '../../dev/charts/expected.ts'
import { type ChartName, chartsFolder } from '../../dev/charts/helm.ts'
import { rendered, skip } from '../support/charts/chart-words.ts'
import { objectsOf } from '../support/manifests.ts'

/** A null value removes the chart's default. If a value is required, the message names it. */

interface Schema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: unknown
}
type Values = Readonly<Record<string, unknown>>

const isMap = (value: unknown): value is Values => typeof value === 'object' && value !== null && !Array.isArray(value)

const takesNull = ({ type = [], enum: words = [], anyOf = [] }: Schema): boolean =>
  [type].flat().includes('null') || words.includes(null) || anyOf.some(takesNull)

/** Returns the paths of values that neither accept null nor are reported as missing. */
function unguarded(values: Values, { properties = {}, required = [], additionalProperties }: Schema): string[] {
  if (additionalProperties !== false) return []
  return Object.entries(values).flatMap(([key, value]) => {
    const own = properties[key] ?? {}
    const below = isMap(value) ? unguarded(value, own).map((path) => `${key}.${path}`) : []
    return takesNull(own) || required.includes(key) ? below : [key, ...below]
  })
}

/** keys that stay: an object that is not created needs a name, and null would refuse other values */
const kept = ['create']

/** Returns the values with null wherever the schema accepts it, except those in `given`. */
function nulled(values: Values, { properties = {} }: Schema, given: Values): Values {
  const entries = Object.entries(values).flatMap(([key, value]): [string, unknown][] => {
    const own = properties[key] ?? {}
    const here = given[key]
    if (isMap(value) && own.properties) return [[key, nulled(value, own, isMap(here) ? here : {})]]
    if (here !== undefined) return [[key, here]]
    return takesNull(own) && !kept.includes(key) ? [[key, null]] : []
  })
  return { ...given, ...Object.fromEntries(entries) }
}

/** Returns the paths of nulls in an object. An API server treats these as absent or refuses them. */
function nullsOf(object: unknown, path: string): string[] {
  if (object === null) return [path]
  if (typeof object !== 'object') return []
  return Object.entries(object).flatMap(([key, value]) => nullsOf(value, `${path}.${key}`))
}

const read = (chart: ChartName, file: string) => readFileSync(join(chartsFolder, chart, file), 'utf8')
const schemas = new Map<ChartName, Schema>()
for (const chart of ['kas', 'agentk'] as const) {
  const schema: Schema = JSON.parse(read(chart, 'values.schema.json'))
  schemas.set(chart, schema)
  t.test(`${chart}: each value may be null, or is missed by name`, async (t) => {
    t.strictSame(unguarded(parse(read(chart, 'values.yaml')), schema), [])
  })
}

for (const { chart, values } of expectations()) {
  const name = values.split('/').slice(-2).join('/')
  t.test(`${name}: with null for each other value no object has one`, { skip }, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'charts-null-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    const given = parse(readFileSync(values, 'utf8')) as Values
    const file = join(folder, 'values.json')
    await writeFile(file, JSON.stringify(nulled(parse(read(chart, 'values.yaml')), schemas.get(chart) ?? {}, given)))
    const apis = ['monitoring.coreos.com/v1', 'gateway.networking.k8s.io/v1']
    const objects = objectsOf(await rendered({ chart, values: [file], apis }), name)
    t.ok(objects.length > 1)
    t.strictSame(
      objects.flatMap((object) => nullsOf(object, `${object.kind} ${object.metadata.name}`)),
      [],
    )
  })
}
