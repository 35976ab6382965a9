import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { type CustomRuleSource, customRuleSchema } from './custom-rules.ts'

const folder = join(import.meta.dirname, '..', 'vendors')

/** Rules of kinds that vendors add to clusters: data, in the form in which users write their own. */
export function vendorRules(): readonly CustomRuleSource[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.yaml'))
    .sort()
    .flatMap((name) => z.array(customRuleSchema).parse(parse(readFileSync(join(folder, name), 'utf8'))))
}
