/**
 * Preloaded into a program: shifts its wall clock by KAS_TEST_CLOCK_MS. Each SIGUSR2 switches between the right time
 * and the wrong one. Timers go on as before, as those of the system do.
 */

const wrongMs = Number(process.env.KAS_TEST_CLOCK_MS)
let offMs = wrongMs
process.on('SIGUSR2', () => {
  offMs = offMs === 0 ? wrongMs : 0
})

const RightDate = Date

globalThis.Date = new Proxy(RightDate, {
  construct(target, args: unknown[], newTarget) {
    return Reflect.construct(target, args.length === 0 ? [RightDate.now() + offMs] : args, newTarget)
  },
  apply: () => new Date().toString(),
  get(target, name, receiver) {
    return name === 'now' ? () => RightDate.now() + offMs : Reflect.get(target, name, receiver)
  },
})
