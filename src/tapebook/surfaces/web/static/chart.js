// A chart whose library is loaded once the page around it is drawn: it is a megabyte, and numbers need none of it.
const pageLoaded = new Promise((resolve) => {
  if (document.readyState === "complete") resolve();
  else addEventListener("load", resolve, { once: true });
});
// Not every browser says when it has nothing else to do.
const whenIdle = window.requestIdleCallback || ((call) => setTimeout(call, 20));
const idle = () => new Promise((resolve) => whenIdle(resolve, { timeout: 300 }));

export default {
  template: "<div></div>",
  props: { options: Object, enable3d: Boolean, renderer: String, theme: Object },
  async mounted() {
    await pageLoaded;
    await idle();
    const { echarts } = await import("nicegui-echart");
    // The part may have been drawn anew while the library came.
    if (!this.$el.isConnected) return;
    this.chart = echarts.init(this.$el, null, { renderer: this.renderer });
    this.chart.on("click", (event) => this.$emit("componentClick", event));
    this.chart.setOption(this.options);
    this.sizes = new ResizeObserver(() => this.chart.resize());
    this.sizes.observe(this.$el);
  },
  beforeUnmount() {
    this.sizes?.disconnect();
    this.chart?.dispose();
  },
  methods: {
    update_chart() {
      this.chart?.setOption(this.options, { notMerge: true });
    },
    run_chart_method(name, ...args) {
      return runMethod(this.chart, name, args);
    },
  },
};
