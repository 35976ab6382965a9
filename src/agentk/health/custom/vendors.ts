import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'yaml'
import * as z from 'zod'
import { type CustomRuleSource, customRuleSchema } from './custom-rule-schema.ts'

const folder = join(import.meta.dirname, '..', 'vendors')

/**
 * Rules of kinds that vendors add to clusters: data, in the form in which users write their own. Read file by file, so
 * that nothing else waits long.
 */
export async function vendorRules(): Promise<readonly CustomRuleSource[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.yaml')).sort()
  const rules: CustomRuleSource[] = []
  for (const name of names) {
    rules.push(...z.array(customRuleSchema).parse(parse(await readFile(join(folder, name), 'utf8'))))
  }
  return rules
}
