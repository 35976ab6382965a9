import type { Clock } from '../../../lib/clock.ts'
import { guarded } from '../../../lib/guarded.ts'
import { LimitedLog } from '../../../lib/limited-log.ts'
import type { Logger } from '../../../lib/log.ts'
import type { CallEnd, ObserveCall, ObservedCall } from '../../access-log/call-record.ts'

/**
 * Combines the observers of modules. An error of one of them neither ends the call nor affects the others; it is logged
 * once a minute. Observers see all calls, also refused ones.
 */
export function observeBy(
  observers: readonly ObserveCall[],
  components: { readonly clock: Clock; readonly log: Logger },
): ObserveCall {
  const failures = new LimitedLog(components, 'A request could not be observed')
  const failed = (error: unknown) => failures.warn(error instanceof Error ? (error.stack ?? '') : String(error))
  return (call: ObservedCall) => {
    const onEnds = observers.map((observe) => guarded(() => observe(call), failed))
    return (end: CallEnd) => {
      for (const onEnd of onEnds) guarded(() => onEnd?.(end), failed)
    }
  }
}
