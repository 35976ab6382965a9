import { type KubernetesObject, kindOf } from '../../../../kubernetes/object.ts'
import type { Logger } from '../../../../lib/log.ts'
import { argoHealth } from '../../../health/argo/argo.ts'
import { CustomRules } from '../../../health/custom/custom-rules.ts'
import { vendorRules } from '../../../health/custom/vendors.ts'
import { isCustom, type RuleVerdicts } from '../../../health/kas/opinion.ts'

export interface HealthRules {
  /** Prepares the rule of a kind (`group/Kind`), so that its objects can be judged. */
  readonly ready: (kind: string) => Promise<void>
  readonly verdictsOf: (object: KubernetesObject) => RuleVerdicts
}

/** Returns the rules of vendors, read with the first custom kind, and Argo CD's own behind them. */
export function healthRules({ log }: { readonly log: Logger }): HealthRules {
  let vendors: Promise<CustomRules> | undefined
  let read: CustomRules | undefined
  const onBroken = (kind: string, error: unknown) => log.warn({ kind, error }, 'A rule of health is not used')
  const load = async () => {
    read = new CustomRules(await vendorRules(), onBroken)
    return read
  }
  return {
    ready: async (kind) => {
      if (!isCustom(kind)) return
      vendors ??= load()
      await (await vendors).ready(kind)
    },
    verdictsOf: (object) => {
      const own = (one: KubernetesObject) => (isCustom(kindOf(one)) ? read?.judge(one) : undefined)
      return { argo: argoHealth(object, own) }
    },
  }
}
