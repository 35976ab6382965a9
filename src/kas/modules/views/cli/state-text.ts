import { printable } from '../../../../lib/printable.ts'
import { asideText } from './aside-kinds.ts'
import type { ShownView } from './shown-view.ts'

/** Returns problems of the agent's views.yaml, and the state of the view with its reason, unless it is live. */
export function stateText({ state }: ShownView): string {
  const wrong = (state.problems ?? []).map((one) => `${printable(one)}\n`).join('')
  if (state.is === 'live') return wrong
  const at = new Date(state.since)
  const since = state.since && !Number.isNaN(at.getTime()) ? ` since ${at.toISOString()}` : ''
  return `${wrong}${printable(state.is)}${since}${state.why ? `: ${printable(state.why)}` : ''}\n`
}

/** Returns the last line: the kinds that are left out. */
export function notFollowedText({ state }: ShownView, isVerbose: boolean, now: number): string {
  const { aside = [], notFollowed = [] } = state
  const left = notFollowed.filter((kind) => !aside.some(([one]) => one === kind))
  const counted = left.length === 1 ? '1 kind not followed (-v)' : `${left.length} kinds not followed (-v)`
  const named = isVerbose ? printable(`not followed: ${left.join(', ')}`) : counted
  const [first, ...others] = aside
  const shown = first ? (isVerbose ? aside : [first]).map((one) => asideText(one, now)) : []
  if (others.length > 0 && !isVerbose) shown.push(`${others.length} more kinds cannot be listed (-v)`)
  return [...shown, ...(left.length > 0 ? [named] : [])].join('; ')
}
