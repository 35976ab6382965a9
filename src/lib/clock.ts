/** Time, which a test can move. */
export interface Clock {
  /** milliseconds since a moment that differs between clocks */
  now(): number
  /** Calls `action` once after `ms`, unless the returned function is called before. */
  after(ms: number, action: () => void): () => void
}

/** Longest wait of one timer of Node. It ends a longer one after 1 ms. ms */
const maxTimerMs = 2 ** 31 - 1

/** Milliseconds since 1970. The system's time may be set meanwhile. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after: (ms, action) => startTimer(ms, action, (timer) => timer),
}

/** Milliseconds since this process began: for measurements and deadlines. */
export const monotonicClock: Clock = { ...systemClock, now: () => performance.now() }

/** As `systemClock`, but its timers do not keep the process running. */
export const backgroundClock: Clock = {
  ...systemClock,
  after: (ms, action) => startTimer(ms, action, (timer) => timer.unref()),
}

/** Waits in parts that Node's timers can take. @param begun - gets the timer of each part. @returns ends the wait */
function startTimer(ms: number, action: () => void, begun: (timer: NodeJS.Timeout) => NodeJS.Timeout): () => void {
  const wait = (leftMs: number): NodeJS.Timeout => {
    if (!(leftMs > maxTimerMs)) return begun(setTimeout(action, leftMs))
    const goOn = () => {
      timer = wait(leftMs - maxTimerMs)
    }
    return begun(setTimeout(goOn, maxTimerMs))
  }
  let timer = wait(ms)
  return () => clearTimeout(timer)
}
