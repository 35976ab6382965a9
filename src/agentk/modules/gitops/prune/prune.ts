import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import type { SourceInventory } from '../source-inventory.ts'
import type { Approval } from './approval.ts'
import type { PruneInput, PrunePlan } from './prune-plan.ts'
import { type PruneListener, Pruner, type PrunerComponents, type PrunerOptions } from './pruner.ts'

export interface PruneStep {
  readonly plan: PrunePlan & Pick<PruneListener, 'checkParent'>
  readonly entries: PruneInput['entries']
  readonly inventory: SourceInventory
  readonly approval: Approval
  /** the plan that is approved may be one that is still to come */
  readonly isOpen: boolean
  readonly superseded: AbortSignal
  readonly onStep: (step: { kind: 'pruned'; key: ObjectKey }) => void
}

/**
 * Deletes what a plan lets go, or what somebody has approved of it.
 *
 * @returns what was deleted. @throws the connection's error, or the signal's reason
 */
export async function prune(
  components: PrunerComponents,
  { plan, entries, inventory, approval, isOpen, superseded, onStep }: PruneStep,
  options: PrunerOptions,
  signal: AbortSignal,
): Promise<readonly ObjectKey[]> {
  const isApproved = plan.digest !== '' && plan.digest === approval.digest
  if (isApproved || (approval.digest !== '' && !isOpen)) await approval.use(signal)
  const prunables = entries.flatMap((entry) => {
    const decision = plan.decisions.get(keyText(entry.key))
    inventory.decided(entry, decision, isApproved)
    const goes = decision?.kind === 'delete' || (decision?.kind === 'confirm' && isApproved)
    return goes ? [{ entry, live: decision.live }] : []
  })
  const deleted: ObjectKey[] = []
  if (prunables.length === 0 || superseded.aborted) return deleted
  const onEnd: PruneListener['onEnd'] = (entry, survives) => {
    inventory.pruned(entry, survives)
    if (survives === undefined) deleted.push(entry.key)
    onStep({ kind: 'pruned', key: entry.key })
  }
  await new Pruner(components, options).prune(prunables, { onEnd, checkParent: plan.checkParent }, superseded, signal)
  return deleted
}
