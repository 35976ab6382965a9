import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'yaml'
import * as z from 'zod'
import { customRuleSchema } from './custom-rule-schema.ts'

const folder = join(import.meta.dirname, '..', 'vendors')

const vendorRuleSchema = customRuleSchema.extend({
  /** of a rule for whatever kinds a group has: those that are known, for roles */
  known: z.array(z.string()).default([]),
})
export type VendorRule = z.infer<typeof vendorRuleSchema>

/**
 * Rules of kinds that vendors add to clusters: data, in the form in which users write their own. Read file by file, so
 * that nothing else waits long.
 */
export async function vendorRules(): Promise<readonly VendorRule[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.yaml')).sort()
  const rules: VendorRule[] = []
  for (const name of names) {
    rules.push(...z.array(vendorRuleSchema).parse(parse(await readFile(join(folder, name), 'utf8'))))
  }
  return rules
}
