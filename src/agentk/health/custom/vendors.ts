import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { parse } from 'yaml'
import * as z from 'zod'
import { customRuleSchema } from './custom-rule-schema.ts'

/** separates documents of one file, because anchors are valid within a document */
export const vendorSeparator = '\n---\n'

const folder = join(import.meta.dirname, '..', 'vendors')

const vendorRuleSchema = customRuleSchema.extend({
  /** known kinds, for roles, of a rule that applies to any kind of a group */
  known: z.array(z.string()).default([]),
})
export type VendorRule = z.infer<typeof vendorRuleSchema>

/**
 * Reads rules of kinds that vendors add to clusters. They are data, in the form in which users write their own. The
 * tree has one file per project, the package one file of many documents. It pauses after each document, so that nothing
 * else waits long.
 *
 * @param from - folder of such files
 */
export async function vendorRules(from = folder): Promise<readonly VendorRule[]> {
  const names = (await readdir(from)).filter((name) => name.endsWith('.yaml')).sort()
  const rules: VendorRule[] = []
  for (const name of names) {
    const text = await readFile(join(from, name), 'utf8')
    for (const document of text.split(vendorSeparator)) {
      rules.push(...z.array(vendorRuleSchema).parse(parse(document)))
      await setImmediate()
    }
  }
  return rules
}
