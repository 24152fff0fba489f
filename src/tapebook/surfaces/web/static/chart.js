// A chart whose library is loaded once the page around it is drawn: it is a megabyte, and numbers need none of it.
const pageLoaded = new Promise((resolve) => {
  if (document.readyState === "complete") resolve();
  else addEventListener("load", resolve, { once: true });
});
// Two frames, so that what is read is on the screen first; a tab in the background has none.
const painted = () =>
  new Promise((resolve) => {
    requestAnimationFrame(() => requestAnimationFrame(resolve));
    setTimeout(resolve, 200);
  });

export default {
  template: "<div></div>",
  props: { options: Object, enable3d: Boolean, renderer: String, theme: Object },
  async mounted() {
    await pageLoaded;
    await painted();
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
