import type { Logger } from '../../../lib/log.ts'
import type { CallEnd, ObserveCall, ObservedCall } from '../../access-log/call-record.ts'

/** Modules observe calls: what one of them throws neither ends a call nor is kept from the others. */
export function observeBy(observers: readonly ObserveCall[], log: Logger): ObserveCall {
  const guarded = <T>(action: () => T): T | undefined => {
    try {
      return action()
    } catch (error) {
      log.error({ error }, 'A request could not be observed')
      return undefined
    }
  }
  return (call: ObservedCall) => {
    const onEnds = observers.map((observe) => guarded(() => observe(call)))
    return (end: CallEnd) => {
      for (const onEnd of onEnds) guarded(() => onEnd?.(end))
    }
  }
}
