import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { parse } from 'yaml'
import * as z from 'zod'
import { customRuleSchema } from './custom-rule-schema.ts'

/** between documents of one file, whose anchors are their own */
export const vendorSeparator = '\n---\n'

const folder = join(import.meta.dirname, '..', 'vendors')

const vendorRuleSchema = customRuleSchema.extend({
  /** of a rule for whatever kinds a group has: those that are known, for roles */
  known: z.array(z.string()).default([]),
})
export type VendorRule = z.infer<typeof vendorRuleSchema>

/**
 * Rules of kinds that vendors add to clusters: data, in the form in which users write their own. A file a project in the
 * tree, one file of many documents in the package. Read document by document, so that nothing else waits long.
 *
 * @param from - a folder of such files
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
