import * as z from 'zod'
import { argoStatuses } from '../argo/health.ts'
import { maxExpressionLength, reservedNames } from './expression-bounds.ts'

const nameSchema = z
  .string()
  .regex(/^[a-z][A-Za-z0-9]*$/)
  .refine((name) => !reservedNames.has(name), 'a name that expressions cannot use')

/** Limit of `group/Kind`. The name of a rule that is evaluated has room for it (`JudgedNow`). */
export const maxKindLength = 253 + 1 + 63

/** Rules of one kind: names for expressions, and rules of which the first true one decides. */
export const customRuleSchema = z.strictObject({
  kind: z
    .string()
    .max(maxKindLength)
    .regex(/^([a-z0-9.*-]+\/)?[A-Za-z0-9*]+$/, 'group/Kind, or Kind of the core group; * is any'),
  let: z.record(nameSchema, z.string().max(maxExpressionLength)).default({}),
  rules: z
    .array(
      z.strictObject({
        when: z.string().max(maxExpressionLength),
        verdict: z.enum(argoStatuses),
        /** expression; absent: no text */
        text: z.string().max(maxExpressionLength).optional(),
      }),
    )
    .min(1),
  tests: z
    .array(z.strictObject({ object: z.record(z.string(), z.unknown()), verdict: z.enum(argoStatuses).nullable() }))
    .default([]),
})
export type CustomRuleSource = z.infer<typeof customRuleSchema>

/** limit of the kinds that users write rules for */
export const maxRules = 64
